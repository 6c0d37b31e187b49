//! Generates the tests' services from the shared .proto files, without protoc.

use std::{env, fs, path::PathBuf};

use ttrpc_codegen::{Codegen, Customize};

fn main() {
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    generate(&out, "echo", false);
    generate(&out, "streams", true); // only asynchronous code has streams
}

fn generate(out: &PathBuf, name: &str, async_all: bool) {
    let proto = PathBuf::from(format!("../proto/{name}.proto"));
    println!("cargo:rerun-if-changed={}", proto.display());
    Codegen::new()
        .out_dir(out)
        .inputs([&proto])
        .include("../proto")
        .rust_protobuf()
        .customize(Customize {
            async_all,
            ..Default::default()
        })
        .run()
        .expect("generate the service");
    // Attributes and comments of a whole file may not come by way of include!().
    for file in [format!("{name}.rs"), format!("{name}_ttrpc.rs")] {
        let text = fs::read_to_string(out.join(&file)).expect("generated");
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("#![") && !line.starts_with("//!"))
            .collect();
        fs::write(out.join(&file), lines.join("\n")).expect("write");
    }
}
