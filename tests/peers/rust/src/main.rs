//! The released Rust ttRPC library as client or server of the tests' echo
//! service (proto/echo.proto): `rustpeer server|client -socket PATH`; and of
//! their service with streams (proto/streams.proto): `stream-server` and
//! `stream-client`. Lines in and out are those of the Go peer; ../README.md
//! lists them.

mod client;
mod server;
mod streams;

#[allow(clippy::all, non_snake_case, non_upper_case_globals, unused)]
mod generated {
    pub mod echo {
        include!(concat!(env!("OUT_DIR"), "/echo.rs"));
    }
    pub mod echo_ttrpc {
        include!(concat!(env!("OUT_DIR"), "/echo_ttrpc.rs"));
    }
    pub mod streams {
        include!(concat!(env!("OUT_DIR"), "/streams.rs"));
    }
    pub mod streams_ttrpc {
        include!(concat!(env!("OUT_DIR"), "/streams_ttrpc.rs"));
    }
}

use std::{env, io::Write, process};

use serde_json::Value;

/// Write one line; concurrent callers do not mix theirs.
fn say(line: Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// Bytes that both sides can make: byte i is i modulo 251.
fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i % 251) as u8).collect()
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", "-socket", socket] => server::run(socket),
        ["client", "-socket", socket] => client::run(socket),
        ["stream-server", "-socket", socket] => streams::serve(socket),
        ["stream-client", "-socket", socket] => streams::call(socket),
        _ => Err("usage: rustpeer [stream-]server|[stream-]client -socket PATH".into()),
    };
    if let Err(error) = outcome {
        eprintln!("rustpeer: {error}");
        process::exit(1);
    }
}
