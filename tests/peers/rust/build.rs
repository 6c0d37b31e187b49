//! Generates the echo service from the shared .proto, without protoc.

use std::{env, fs, path::PathBuf};

use ttrpc_codegen::Codegen;

fn main() {
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let proto = PathBuf::from("../proto/echo.proto");
    println!("cargo:rerun-if-changed={}", proto.display());
    Codegen::new()
        .out_dir(&out)
        .inputs([&proto])
        .include("../proto")
        .rust_protobuf()
        .run()
        .expect("generate the echo service");
    // Attributes and comments of a whole file may not come by way of include!().
    for name in ["echo.rs", "echo_ttrpc.rs"] {
        let text = fs::read_to_string(out.join(name)).expect("generated");
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("#![") && !line.starts_with("//!"))
            .collect();
        fs::write(out.join(name), lines.join("\n")).expect("write");
    }
}
