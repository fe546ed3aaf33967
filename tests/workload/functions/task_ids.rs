//! The part of tokio that says which task a thread runs, in a crate of that name: rustc --crate-name tokio.
//!
//! Prints how far the number of the current task is from the thread pointer.

use std::arch::asm;

pub mod runtime {
    pub mod task {
        pub mod id {
            #[derive(Clone, Copy)]
            pub struct Id(pub std::num::NonZeroU64);
        }
    }

    pub mod context {
        use super::task::id::Id;
        use std::cell::{Cell, RefCell};

        pub struct Context {
            pub thread_id: Cell<Option<Id>>,
            pub current: RefCell<Option<String>>,
            pub current_task_id: Cell<Option<Id>>,
            pub budget: Cell<u8>,
        }

        thread_local! {
            pub static CONTEXT: Context = const {
                Context {
                    thread_id: Cell::new(None),
                    current: RefCell::new(None),
                    current_task_id: Cell::new(None),
                    budget: Cell::new(0),
                }
            }
        }

        #[inline(never)]
        pub fn set_current_task_id(id: Option<Id>) -> Option<Id> {
            CONTEXT.with(|context| context.current_task_id.replace(id))
        }
    }
}

fn main() {
    let number = std::num::NonZeroU64::new(7).unwrap();
    runtime::context::set_current_task_id(Some(runtime::task::id::Id(number)));
    let pointer: isize;
    unsafe { asm!("mov {}, fs:0", out(reg) pointer) };
    runtime::context::CONTEXT.with(|context| {
        let id = &context.current_task_id;
        assert_eq!(id.get().map(|id| id.0), Some(number));
        println!("{}", std::ptr::from_ref(id) as isize - pointer);
    });
}
