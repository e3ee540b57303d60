//! Names the shared library as its users find it: by the version that they are bound to.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfarcall.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
