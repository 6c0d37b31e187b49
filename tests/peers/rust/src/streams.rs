//! The service with streams (proto/streams.proto), server and client. Only the
//! library's asynchronous half has streams. One thread: with more, the
//! library's server may hand out data in another order than it came.

use std::{error::Error, io::BufRead, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::{json, Value};
use tokio::{runtime, task, time::sleep};
use ttrpc::{
    context::{with_timeout, Context},
    r#async::{Client, Server, ServerStream, ServerStreamReceiver, ServerStreamSender, TtrpcContext},
};

use crate::{
    generated::{
        streams::{Item, ListRequest, Summary},
        streams_ttrpc::{create_streams, Streams, StreamsClient},
    },
    pattern, say,
};

struct Service;

fn status(code: i32, message: &str) -> ttrpc::Error {
    let mut status = ttrpc::Status::new();
    status.code = protobuf::EnumOrUnknown::from_i32(code);
    status.message = message.into();
    ttrpc::Error::RpcStatus(status)
}

fn check(item: &Item) -> ttrpc::Result<()> {
    match item.code {
        0 => Ok(()),
        code => Err(status(code, &item.message)),
    }
}

#[async_trait]
impl Streams for Service {
    async fn list(
        &self,
        _: &TtrpcContext,
        request: ListRequest,
        stream: ServerStreamSender<Item>,
    ) -> ttrpc::Result<()> {
        for number in 0..request.count {
            sleep(Duration::from_millis(request.delay_ms.into())).await;
            stream.send(&item(number, request.size as usize)).await?;
        }
        match request.code {
            0 => Ok(()),
            code => Err(status(code, &request.message)),
        }
    }

    async fn collect(
        &self,
        _: &TtrpcContext,
        mut stream: ServerStreamReceiver<Item>,
    ) -> ttrpc::Result<Summary> {
        let mut summary = Summary {
            ordered: true,
            ..Default::default()
        };
        while let Some(item) = stream.recv().await? {
            check(&item)?;
            summary.ordered &= item.number == summary.count;
            summary.count += 1;
            summary.bytes += item.payload.len() as u64;
        }
        Ok(summary)
    }

    async fn relay(
        &self,
        _: &TtrpcContext,
        mut stream: ServerStream<Item, Item>,
    ) -> ttrpc::Result<()> {
        while let Some(item) = stream.recv().await? {
            check(&item)?;
            stream.send(&item).await?;
        }
        Ok(())
    }

    async fn look(&self, _: &TtrpcContext, item: Item) -> ttrpc::Result<Item> {
        check(&item)?;
        Ok(item)
    }
}

fn item(number: u32, size: usize) -> Item {
    Item {
        number,
        payload: pattern(size),
        ..Default::default()
    }
}

fn single_thread() -> Result<runtime::Runtime, Box<dyn Error>> {
    Ok(runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

/// The next line of stdin, read where it does not hold up the rest.
async fn next_line() -> Option<String> {
    task::spawn_blocking(|| std::io::stdin().lock().lines().next()?.ok())
        .await
        .ok()?
}

/// Serve until stdin ends.
pub fn serve(socket: &str) -> Result<(), Box<dyn Error>> {
    single_thread()?.block_on(async {
        let mut server = Server::new()
            .bind(&format!("unix://{socket}"))?
            .register_service(create_streams(Arc::new(Service)));
        server.start().await?;
        say(json!({"event": "listening", "socket": socket}));
        while next_line().await.is_some() {}
        server.shutdown().await?;
        Ok(())
    })
}

/// Answer every command of stdin, all of them concurrently.
pub fn call(socket: &str) -> Result<(), Box<dyn Error>> {
    single_thread()?.block_on(async {
        let client = StreamsClient::new(Client::connect(&format!("unix://{socket}")).await?);
        say(json!({"event": "connected"}));
        let mut calls = Vec::new();
        while let Some(line) = next_line().await {
            let command: Value = serde_json::from_str(&line)?;
            let client = client.clone();
            calls.push(task::spawn(
                async move { say(run(&client, &command).await) },
            ));
        }
        for call in calls {
            let _ = call.await;
        }
        Ok(())
    })
}

fn number(command: &Value, key: &str) -> u32 {
    command[key].as_u64().unwrap_or(0) as u32
}

async fn run(client: &StreamsClient, command: &Value) -> Value {
    let context = with_timeout(i64::from(number(command, "timeout_ms")) * 1_000_000);
    let mut answer = json!({"id": command["id"], "ok": true});
    let outcome = match command["stream"].as_str() {
        Some("List") => list(client, context, command, &mut answer).await,
        Some("Collect") => collect(client, context, command, &mut answer).await,
        _ => relay(client, context, command, &mut answer).await,
    };
    if let Err(error) = outcome {
        answer["ok"] = json!(false);
        answer["error"] = json!(error.to_string());
        if let ttrpc::Error::RpcStatus(status) = &error {
            answer["code"] = json!(status.code.value());
            answer["message"] = json!(status.message);
        }
    }
    answer
}

async fn list(
    client: &StreamsClient,
    context: Context,
    command: &Value,
    answer: &mut Value,
) -> ttrpc::Result<()> {
    let request = ListRequest {
        count: number(command, "count"),
        size: number(command, "payload_size"),
        code: number(command, "code") as i32,
        message: command["message"].as_str().unwrap_or("").into(),
        ..Default::default()
    };
    let mut stream = client.list(context, &request).await?;
    let mut seen = Seen::new(command);
    loop {
        seen.tell(answer).await;
        match stream.recv().await? {
            Some(item) => seen.take(&item),
            None => return Ok(()),
        }
    }
}

async fn collect(
    client: &StreamsClient,
    context: Context,
    command: &Value,
    answer: &mut Value,
) -> ttrpc::Result<()> {
    let mut stream = client.collect(context).await?;
    for item in items(command) {
        stream.send(&item).await?;
    }
    let summary = stream.close_and_recv().await?;
    answer["count"] = json!(summary.count);
    answer["bytes"] = json!(summary.bytes);
    answer["ordered"] = json!(summary.ordered);
    Ok(())
}

async fn relay(
    client: &StreamsClient,
    context: Context,
    command: &Value,
    answer: &mut Value,
) -> ttrpc::Result<()> {
    let (sender, mut receiver) = client.relay(context).await?.split();
    let mine = items(command);
    let fails = number(command, "code") != 0;
    let sending = task::spawn(async move {
        for item in mine {
            sender.send(&item).await?;
        }
        if fails {
            return Ok(()); // the server ends the stream then, and data for it would be too late
        }
        sender.close_send().await
    });
    let mut seen = Seen::new(command);
    loop {
        seen.tell(answer).await;
        match receiver.recv().await {
            Ok(item) => seen.take(&item),
            Err(ttrpc::Error::Eof) => break,
            Err(error) => return Err(error),
        }
    }
    sending
        .await
        .unwrap_or_else(|error| Err(ttrpc::Error::Others(error.to_string())))
}

/// The items to send, with one that fails the stream at the end if there is a code.
fn items(command: &Value) -> Vec<Item> {
    let count = number(command, "count");
    let size = number(command, "payload_size") as usize;
    let mut items: Vec<Item> = (0..count).map(|place| item(place, size)).collect();
    if number(command, "code") != 0 {
        items.push(Item {
            number: count,
            code: number(command, "code") as i32,
            message: command["message"].as_str().unwrap_or("").into(),
            ..Default::default()
        });
    }
    items
}

/// What has been received, against what was to come.
struct Seen {
    count: u32,
    ordered: bool,
    intact: bool,
    wanted: Vec<u8>,
    pause: Duration,
}

impl Seen {
    fn new(command: &Value) -> Self {
        Seen {
            count: 0,
            ordered: true,
            intact: true,
            wanted: pattern(number(command, "payload_size") as usize),
            pause: Duration::from_millis(number(command, "delay_ms").into()),
        }
    }

    fn take(&mut self, item: &Item) {
        self.ordered &= item.number == self.count;
        self.intact &= item.payload == self.wanted;
        self.count += 1;
    }

    /// Write down the state so far, and wait if the reader is to be slow.
    async fn tell(&self, answer: &mut Value) {
        answer["count"] = json!(self.count);
        answer["ordered"] = json!(self.ordered);
        answer["intact"] = json!(self.intact);
        sleep(self.pause).await;
    }
}
