//! Functions with results of all kinds. For each call it prints the line that a trace of it should
//! have, in the order of the calls.
#![allow(improper_ctypes_definitions, dead_code)]

use std::fmt;
use std::hint::black_box;
use std::num::NonZeroU32;

macro_rules! structs {
    ($($(#[$meta:meta])* struct $name:ident { $($field:ident: $type:ty),* })*) => {$(
        $(#[$meta])* #[derive(Clone, Copy)]
        pub struct $name { $($field: $type),* }
        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
                let fields: Vec<String> =
                    vec![$(format!("{}={:?}", stringify!($field), { self.$field })),*];
                write!(out, "{{{}}}", fields.join(", "))
            }
        }
    )*};
}

structs! {
    struct One { only: u16 }
    struct Wrapped { inner: One }
    struct Two { byte: u8, word: u32 }
    struct TwoWords { a: u64, b: u64 }
    struct Three { a: u8, b: u8, c: u8 }
    struct ThreeWords { a: u64, b: u64, c: u64 }
    struct Halves { a: u16, b: u16, c: u16, d: u16 }
    struct Float { x: f64 }
    struct Mixed { whole: u64, part: f64 }
    struct Floats { x: f32, y: f32 }
    #[repr(C)] struct InC { a: u32, b: u64 }
    #[repr(C, packed)] struct Packed { a: u8, b: u32 }
    struct WithUnit { nothing: (), word: u64 }
    struct PairInside { pair: (u32, u32) }
    struct PairAndMore { pair: (u32, u32), more: u8 }
    struct Text { text: &'static str }
    struct Bytes { bytes: [u8; 4] }
}

#[derive(Clone, Copy, Debug)]
pub enum Color { Red, Green, Blue }
#[derive(Clone, Copy, Debug)]
pub enum Shape { Circle(u32), Square(u32), Nothing }
#[derive(Clone, Copy, Debug)]
pub enum Different { Small(u8), Large(u64) }
#[derive(Clone, Copy, Debug)]
pub enum Several { Both(u32, u32), Single(u32) }
#[derive(Clone, Copy, Debug)]
pub enum Number { Whole(u64), Part(f64) }
#[derive(Clone, Copy, Debug)]
pub enum OneKind { Only(u32) }

macro_rules! calls {
    ($($name:ident: $type:ty = $value:expr;)*) => {
        $(#[inline(never)] pub fn $name(seed: u64) -> $type {
            black_box(stringify!($name)); // so that no two functions have the same code
            black_box($value(black_box(seed)))
        })*
        fn main() {
            $(let result = $name(black_box(3));
              println!("{}(seed=3) = {:?}", stringify!($name), result);)*
        }
    };
}

calls! {
    r_u8: u8 = |s| s as u8 + 200;
    r_i8: i8 = |s| -(s as i8);
    r_u16: u16 = |s| s as u16 + 60000;
    r_i32: i32 = |s| -(s as i32);
    r_u32: u32 = |s| s as u32 + 4_000_000_000;
    r_u64: u64 = |s| s + 18_000_000_000_000_000_000;
    r_i64: i64 = |s| -(s as i64);
    r_usize: usize = |s| s as usize;
    r_u128: u128 = |s| (s as u128) << 70 | 5;
    r_i128: i128 = |s| -(s as i128);
    r_bool: bool = |s| s == 3;
    r_char: char = |s| char::from_u32(s as u32 + 0x61).unwrap();
    r_f32: f32 = |s| s as f32;
    r_f64: f64 = |s| s as f64;
    r_str: &'static str = |s| &"abcdef"[s as usize..];
    r_string: String = |s| "x".repeat(s as usize);
    r_slice: &'static [u16] = |s| &[1, 2, 3, 4, 5][s as usize..];
    r_vec: Vec<u32> = |s| vec![s as u32, 4];
    r_option_u8: Option<u8> = |s| Some(s as u8);
    r_option_u32: Option<u32> = |s| Some(s as u32);
    r_option_u64: Option<u64> = |s| Some(s);
    r_none_u64: Option<u64> = |_| None;
    r_option_nonzero: Option<NonZeroU32> = |s| NonZeroU32::new(s as u32);
    r_option_bool: Option<bool> = |s| Some(s == 3);
    r_option_char: Option<char> = |s| char::from_u32(s as u32 + 0x61);
    r_option_str: Option<&'static str> = |s| Some(&"abcdef"[s as usize..]);
    r_none_str: Option<&'static str> = |_| None;
    r_option_string: Option<String> = |s| Some("y".repeat(s as usize));
    r_option_option: Option<Option<u32>> = |s| Some(Some(s as u32));
    r_option_u128: Option<u128> = |s| Some(s as u128);
    r_option_f64: Option<f64> = |s| Some(s as f64);
    r_ok_u32: Result<u32, u32> = |s| Ok(s as u32);
    r_err_u32: Result<u32, u32> = |s| Err(s as u32);
    r_result_signs: Result<i32, u32> = |s| Ok(-(s as i32));
    r_result_differs: Result<u64, u32> = |s| Err(s as u32);
    r_result_unit: Result<(), u8> = |s| Err(s as u8);
    r_result_string: Result<String, u32> = |s| Ok("z".repeat(s as usize));
    r_result_str: Result<&'static str, u8> = |s| Ok(&"abcdef"[s as usize..]);
    r_result_words: Result<u64, u64> = |s| Ok(s);
    r_tuple: (u32, u32) = |s| (s as u32, 7);
    r_tuple_words: (u64, u64) = |s| (s, 7);
    r_tuple_mixed: (u8, u64) = |s| (s as u8, 7);
    r_tuple_three: (u32, u32, u32) = |s| (s as u32, 7, 8);
    r_tuple_float: (u64, f64) = |s| (s, 0.5);
    r_tuple_bools: (bool, bool) = |s| (s == 3, s == 4);
    r_array_4: [u8; 4] = |s| [s as u8, 1, 2, 3];
    r_array_16: [u8; 16] = |s| [s as u8; 16];
    r_array_words: [u64; 3] = |s| [s, 1, 2];
    r_array_one: [u64; 1] = |s| [s];
    r_array_pair: [u32; 2] = |s| [s as u32, 9];
    r_one: One = |s| One { only: s as u16 };
    r_wrapped: Wrapped = |s| Wrapped { inner: One { only: s as u16 } };
    r_two: Two = |s| Two { byte: s as u8, word: 9 };
    r_two_words: TwoWords = |s| TwoWords { a: s, b: 9 };
    r_three: Three = |s| Three { a: s as u8, b: 1, c: 2 };
    r_three_words: ThreeWords = |s| ThreeWords { a: s, b: 1, c: 2 };
    r_halves: Halves = |s| Halves { a: s as u16, b: 1, c: 2, d: 3 };
    r_float: Float = |s| Float { x: s as f64 };
    r_mixed: Mixed = |s| Mixed { whole: s, part: 0.5 };
    r_floats: Floats = |s| Floats { x: s as f32, y: 0.5 };
    r_in_c: InC = |s| InC { a: s as u32, b: 9 };
    r_packed: Packed = |s| Packed { a: s as u8, b: 9 };
    r_with_unit: WithUnit = |s| WithUnit { nothing: (), word: s };
    r_pair_inside: PairInside = |s| PairInside { pair: (s as u32, 9) };
    r_pair_and_more: PairAndMore = |s| PairAndMore { pair: (s as u32, 9), more: 1 };
    r_text: Text = |s| Text { text: &"abcdef"[s as usize..] };
    r_bytes: Bytes = |s| Bytes { bytes: [s as u8; 4] };
    r_color: Color = |s| if s == 3 { Color::Blue } else { Color::Red };
    r_option_color: Option<Color> = |s| if s == 3 { Some(Color::Green) } else { None };
    r_shape: Shape = |s| Shape::Square(s as u32);
    r_shape_nothing: Shape = |s| if s == 3 { Shape::Nothing } else { Shape::Circle(1) };
    r_different: Different = |s| Different::Large(s);
    r_several: Several = |s| Several::Both(s as u32, 5);
    r_number: Number = |s| Number::Whole(s);
    r_one_kind: OneKind = |s| OneKind::Only(s as u32);
    r_pair_wide: (u128, u64) = |s| (s as u128, 5);
    r_nested: (u8, (u16, u32)) = |s| (s as u8, (4, 5));
    r_option_tuple: Option<(u32, u32)> = |s| Some((s as u32, 5));
}
