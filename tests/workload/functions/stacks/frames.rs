use std::backtrace::Backtrace;

#[inline(never)]
fn probed(n: i32) -> i32 {
    println!("{}", Backtrace::force_capture());
    n
}

#[inline(always)]
fn inlined(n: i32) -> i32 {
    probed(n + 1) * 3
}

trait Shape {
    fn area(&self) -> i32;
}

struct Square(i32);

impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> i32 {
        inlined(self.0) + 1
    }
}

#[inline(never)]
fn recurse(n: i32, shape: &dyn Shape) -> i32 {
    if n > 0 {
        return recurse(n - 1, shape) + std::hint::black_box(1);
    }
    (1..2).map(|_| shape.area() + 1).sum()
}

fn main() {
    println!("{}", recurse(2, &Square(4)));
}
