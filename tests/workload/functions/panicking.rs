// Panics unwind through functions to one that catches them.
use std::panic;

#[inline(never)]
fn leaf(n: i32) -> i32 {
    if n % 2 == 1 {
        panic!("odd {n}");
    }
    std::hint::black_box(n) + 1
}

#[inline(never)]
fn middle(n: i32) -> i32 {
    leaf(n + 1) + 10
}

#[inline(never)]
fn guarded(n: i32) -> i32 {
    panic::catch_unwind(|| middle(n)).unwrap_or(-1)
}

#[inline(never)]
fn after(n: i32) -> i32 {
    std::hint::black_box(n)
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    println!("{}", (0..4).map(|n| guarded(n) + after(n)).sum::<i32>());
}
