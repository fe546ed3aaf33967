//! As hello.rs, with numbers that the compiler knows: it unrolls the loop, and inlines four calls.

pub fn hello(i: i32, len: usize) -> i32 {
    println!("Hello, world! {} in {}", i, len);
    i + len as i32
}

fn main() {
    let len = std::env::args().count() + 4;
    for i in 1..=4 {
        let ret = hello(i, len);
        println!("return value: {}", ret);
    }
}
