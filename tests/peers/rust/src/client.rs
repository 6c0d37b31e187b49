//! Calls of the echo service, one a line, all concurrent.

use std::{collections::HashMap, error::Error, io::BufRead, thread, time::Instant};

use serde_json::{json, Value};
use ttrpc::{context::Context, proto::Request, Client};

use crate::{
    generated::echo::{EchoReply, EchoRequest},
    pattern, say,
};
use protobuf::Message;

/// Answer every command of stdin.
pub fn run(socket: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(&format!("unix://{socket}"))?;
    say(json!({"event": "connected"}));
    let mut calls = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let command: Value = serde_json::from_str(&line?)?;
        let client = client.clone();
        calls.push(thread::spawn(move || say(call(&client, &command))));
    }
    for call in calls {
        let _ = call.join();
    }
    Ok(())
}

fn number(command: &Value, key: &str) -> u64 {
    command[key].as_u64().unwrap_or(0)
}

fn call(client: &Client, command: &Value) -> Value {
    let size = number(command, "payload_size") as usize;
    let reply_size = number(command, "reply_size");
    let echo = EchoRequest {
        payload: pattern(size),
        delay_ms: number(command, "delay_ms") as u32,
        code: number(command, "code") as i32,
        message: command["message"].as_str().unwrap_or("").into(),
        reply_size: reply_size as u32,
        ..Default::default()
    };
    let context = context(command);
    let mut request = Request::new();
    request.service = command["service"]
        .as_str()
        .unwrap_or("nri.test.Echo")
        .into();
    request.method = command["method"].as_str().unwrap_or("Echo").into();
    request.timeout_nano = context.timeout_nano;
    request.metadata = ttrpc::context::to_pb(context.metadata);
    request.payload = echo.write_to_bytes().unwrap_or_default();
    let began = Instant::now();
    let outcome = client.request(request);
    let ns = began.elapsed().as_nanos() as u64;
    match outcome {
        Ok(response) => {
            let reply = EchoReply::parse_from_bytes(&response.payload).unwrap_or_default();
            let wanted = if reply_size == 0 {
                size
            } else {
                reply_size as usize
            };
            let mut metadata: HashMap<&str, Vec<&str>> = HashMap::new();
            for pair in &reply.metadata {
                metadata.entry(&pair.key).or_default().push(&pair.value);
            }
            json!({"id": command["id"], "ok": true, "ns": ns, "size": reply.payload.len(),
                "intact": reply.payload == pattern(wanted), "timeout_ns": reply.timeout_nano, "metadata": metadata})
        }
        Err(error) => {
            let mut answer = json!({"id": command["id"], "ok": false, "ns": ns, "error": error.to_string(),
                "code": null, "deadline": matches!(&error, ttrpc::Error::Others(text) if text.contains("timeout")),
                "closed": matches!(&error, ttrpc::Error::LocalClosed | ttrpc::Error::RemoteClosed)});
            if let ttrpc::Error::RpcStatus(status) = &error {
                answer["code"] = json!(status.code.value());
                answer["message"] = json!(status.message);
            }
            answer
        }
    }
}

fn context(command: &Value) -> Context {
    let mut context =
        ttrpc::context::with_timeout(number(command, "timeout_ms") as i64 * 1_000_000);
    if let Some(pairs) = command["metadata"].as_object() {
        for (key, values) in pairs {
            for value in values.as_array().into_iter().flatten() {
                context.add(key.clone(), value.as_str().unwrap_or("").into());
            }
        }
    }
    context
}
