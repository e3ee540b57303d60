//! The part of PMIx's interface that is used here, as `pmix.h` and `pmix_common.h` of versions 3 and later
//! declare it.
#![allow(unsafe_code, reason = "declarations of a C library")]

use core::ffi::{CStr, c_char, c_int};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

pub const SUCCESS: c_int = 0;
pub const RANK_WILDCARD: u32 = u32::MAX - 1;
pub const SCOPE_GLOBAL: u8 = 3;

const NAMESPACE_BYTES: usize = 256;
const KEY_BYTES: usize = 512;

const TYPE_BOOL: u16 = 1;
const TYPE_STRING: u16 = 3;
const TYPE_INT: u16 = 6;
const TYPE_UINT32: u16 = 14;

/// `pmix_proc_t`: which process.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Process {
    namespace: [c_char; NAMESPACE_BYTES],
    pub rank: u32,
}

impl Process {
    /// Another process of the same job, or all of them.
    pub fn with_rank(self, rank: u32) -> Self {
        Self { rank, ..self }
    }
}

impl Default for Process {
    fn default() -> Self {
        Self { namespace: [0; NAMESPACE_BYTES], rank: 0 }
    }
}

/// `pmix_value_t`: a type and 24 bytes, of which the types used here take the first.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Value {
    kind: u16,
    data: Data,
}

#[derive(Clone, Copy)]
#[repr(C)]
union Data {
    flag: bool,
    integer: c_int,
    number: u32,
    string: *const c_char,
    words: [u64; 3],
}

impl Value {
    fn new(kind: u16, write: impl FnOnce(&mut Data)) -> Self {
        let mut data = Data { words: [0; 3] };
        write(&mut data);
        Self { kind, data }
    }

    /// A text, which must outlive the value.
    pub fn string(text: &CStr) -> Self {
        Self::new(TYPE_STRING, |data| data.string = text.as_ptr())
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<u32> {
        match self.kind {
            // SAFETY: the type says which field was written.
            TYPE_UINT32 => Some(unsafe { self.data.number }),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_string(&self) -> Option<*const c_char> {
        match self.kind {
            // SAFETY: the type says which field was written.
            TYPE_STRING => Some(unsafe { self.data.string }).filter(|string| !string.is_null()),
            _ => None,
        }
    }
}

/// `pmix_info_t`: a wish with its name.
#[repr(C)]
pub struct Info {
    key: [c_char; KEY_BYTES],
    flags: u32,
    value: Value,
}

impl Info {
    fn new(key: &CStr, value: Value) -> Self {
        let mut name = [0; KEY_BYTES];
        for (to, &from) in name.iter_mut().zip(key.to_bytes()) {
            *to = from as c_char;
        }
        Self { key: name, flags: 0, value }
    }

    /// Something that is wanted.
    pub fn flag(key: &CStr) -> Self {
        Self::new(key, Value::new(TYPE_BOOL, |data| data.flag = true))
    }

    /// A number.
    pub fn integer(key: &CStr, number: c_int) -> Self {
        Self::new(key, Value::new(TYPE_INT, |data| data.integer = number))
    }
}

/// Declares the functions once: as fields, and as symbols to look up.
macro_rules! functions {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// The functions.
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
            /// Keeps the library, and with it the functions, in memory.
            _library: Library,
        }

        impl Api {
            /// Opens the library. Its symbols are made global, because the modules that it opens itself want
            /// them.
            pub fn open() -> Result<Self, libloading::Error> {
                // SAFETY: the library's constructors are made to run in any process.
                let library = unsafe { Library::open(Some("libpmix.so.2"), RTLD_NOW | RTLD_GLOBAL)? };
                $(
                    // SAFETY: the type is that of the function in PMIx's headers.
                    let $name = unsafe {
                        *library.get::<unsafe extern "C" fn($($argument),*) -> c_int>(
                            concat!($symbol, "\0").as_bytes(),
                        )?
                    };
                )*
                Ok(Self { $($name,)* _library: library })
            }
        }
    };
}

functions! {
    init = "PMIx_Init": fn(*mut Process, *mut Info, usize);
    finalize = "PMIx_Finalize": fn(*const Info, usize);
    put = "PMIx_Put": fn(u8, *const c_char, *mut Value);
    commit = "PMIx_Commit": fn();
    fence = "PMIx_Fence": fn(*const Process, usize, *const Info, usize);
    get = "PMIx_Get": fn(*const Process, *const c_char, *const Info, usize, *mut *mut Value);
}

#[cfg(test)]
mod tests {
    use core::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!((size_of::<Process>(), offset_of!(Process, rank)), (260, 256));
        assert_eq!((size_of::<Value>(), offset_of!(Value, data)), (32, 8));
        assert_eq!(size_of::<Info>(), 552);
        assert_eq!((offset_of!(Info, flags), offset_of!(Info, value)), (512, 520));
    }
}
