//! The echo service.

use std::{collections::BTreeMap, error::Error, io::Read, sync::Arc, thread, time::Duration};

use serde_json::json;
use ttrpc::{Server, TtrpcContext};

use crate::{
    generated::{
        echo::{EchoReply, EchoRequest, Metadata},
        echo_ttrpc::{create_echo, Echo},
    },
    pattern, say,
};

struct Service;

impl Echo for Service {
    fn echo(&self, context: &TtrpcContext, request: EchoRequest) -> ttrpc::Result<EchoReply> {
        let metadata: BTreeMap<_, _> = context.metadata.iter().collect();
        let pairs: Vec<Metadata> = metadata
            .into_iter()
            .flat_map(|(key, values)| {
                values.iter().map(|value| Metadata {
                    key: key.clone(),
                    value: value.clone(),
                    ..Default::default()
                })
            })
            .collect();
        say(json!({"event": "request", "size": request.payload.len(),
            "timeout_ns": context.timeout_nano, "metadata": pairs.len()}));
        thread::sleep(Duration::from_millis(request.delay_ms.into()));
        if request.code != 0 {
            let mut status = ttrpc::Status::new();
            status.code = protobuf::EnumOrUnknown::from_i32(request.code);
            status.message = request.message;
            return Err(ttrpc::Error::RpcStatus(status));
        }
        let payload = match request.reply_size {
            0 => request.payload,
            size => pattern(size as usize),
        };
        Ok(EchoReply {
            payload,
            timeout_nano: context.timeout_nano,
            metadata: pairs,
            ..Default::default()
        })
    }
}

/// Serve until stdin ends.
pub fn run(socket: &str) -> Result<(), Box<dyn Error>> {
    let mut server = Server::new()
        .bind(&format!("unix://{socket}"))?
        .register_service(create_echo(Arc::new(Service)));
    server.start()?;
    say(json!({"event": "listening", "socket": socket}));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.shutdown();
    Ok(())
}
