//! Functions whose arguments are of Rust's types; tests/unit/functions/values has their
//! values.
#![allow(unused_variables, clippy::all)]

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub struct Point {
    x: i32,
    y: u8,
}
pub struct Id(u64);
pub enum Shape {
    Empty,
    Circle(f32),
    Named { name: String, sides: u8 },
}
#[derive(Clone, Copy)]
pub enum Color {
    Red = 1,
    Blue = -3,
}
pub trait Speak {}
impl Speak for Point {}

#[inline(never)]
fn numbers(a: i8, b: u128, c: char, d: bool, e: (), f: isize) {
    black_box((&a, &b, &c, &d, &e, &f));
}
#[inline(never)]
fn texts(a: &str, b: String, c: &String, d: Box<str>, e: Cow<'static, str>, f: &Path) {
    black_box((&a, &b, &c, &d, &e, &f));
}
#[inline(never)]
fn owned_texts(a: PathBuf, b: OsString, c: Cow<'static, str>, d: Arc<str>, e: &str) {
    black_box((&a, &b, &c, &d, &e));
}
#[inline(never)]
fn lists(a: &[u16], b: Vec<i32>, c: &mut Vec<String>, d: [u8; 3], e: Vec<u64>, f: &[Point]) {
    black_box((&a, &b, &c, &d, &e, &f));
}
#[inline(never)]
fn pointers(a: Box<Point>, b: Rc<Point>, c: Arc<String>, d: &Point, e: &i32, f: *const i32) {
    black_box((&a, &b, &c, &d, &e, &f));
}
#[inline(never)]
fn options(
    a: Option<i32>,
    b: Option<Box<Point>>,
    c: Option<&str>,
    d: Option<&str>,
    e: Option<bool>,
) {
    black_box((&a, &b, &c, &d, &e));
}
#[inline(never)]
fn results(
    a: Result<String, u8>,
    b: Result<String, u8>,
    c: Result<(), u64>,
    d: Option<Option<bool>>,
) {
    black_box((&a, &b, &c, &d));
}
#[inline(never)]
fn enums(a: Shape, b: Shape, c: &Shape, d: Option<Shape>) {
    black_box((&a, &b, &c, &d));
}
#[inline(never)]
fn structures(
    a: &(i32, bool),
    b: &Option<Point>,
    c: Id,
    d: &Duration,
    e: NonZeroU32,
    f: &dyn Speak,
) {
    black_box((&a, &b, &c, &d, &e, &f));
}
#[inline(never)]
fn collections(a: HashMap<i32, i32>, b: HashSet<u8>, c: BTreeMap<i32, i32>, d: VecDeque<u8>) {
    black_box((&a, &b, &c, &d));
}
#[inline(never)]
fn cells(a: Rc<RefCell<i32>>, b: &Mutex<String>, c: &Color) {
    black_box((&a, &b, &c));
}

fn point() -> Point {
    Point { x: -1, y: 2 }
}

fn named() -> Shape {
    Shape::Named { name: "square".into(), sides: 4 }
}

fn main() {
    let large = "x".repeat(600);
    numbers(-1, 1 << 100, 'ä', true, (), -5);
    texts(
        "hält\n",
        "own".into(),
        &"ref".into(),
        "box".into(),
        Cow::Borrowed("cow"),
        Path::new("/p"),
    );
    owned_texts("/path".into(), "os".into(), Cow::Owned("owned".into()), "arc".into(), &large);
    lists(
        &[1, 2],
        vec![-1],
        &mut vec!["a".into(), "b".into()],
        [7, 8, 9],
        vec![5; 100],
        &[point()],
    );
    pointers(Box::new(point()), Rc::new(point()), Arc::new("s".into()), &point(), &5, &6);
    options(Some(3), None, Some("some"), black_box(None), Some(false));
    results(Ok("ok".into()), Err(7), Err(9), Some(None));
    enums(Shape::Empty, Shape::Circle(0.5), &named(), Some(named()));
    let lasting = black_box(Duration::new(1, 5));
    let six = NonZeroU32::new(6).unwrap();
    structures(&(1, true), &Some(point()), Id(9), &lasting, six, &point());
    collections([(1, 2)].into(), [1, 2].into(), [(1, 2)].into(), [1, 2, 3].into());
    cells(Rc::new(RefCell::new(4)), &Mutex::new("kept".into()), &Color::Blue);
    let all = [Color::Red, Color::Blue];
    std::process::exit(all.len() as i32 - 2);
}
