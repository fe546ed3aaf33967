//! Static probes of the crate `probe`, one with a semaphore: they are passed for each line of
//! standard input, a number. Then the program prints whether the one with a semaphore was enabled.

use probe::{probe, probe_lazy};
use std::io;

fn main() {
    let mut sold = 0;
    for line in io::stdin().lines() {
        let number: i64 = line.ok().and_then(|text| text.parse().ok()).expect("a number");
        let price = number * number;
        sold += price;
        probe!(shop, sold, number, -price, c"SELECT tea".as_ptr());
        let is_enabled = probe_lazy!(shop, counted, sold);
        println!("{}", u8::from(is_enabled));
    }
    probe!(shop, closed);
}
