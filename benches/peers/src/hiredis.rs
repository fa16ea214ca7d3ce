//! As much of hiredis as is needed. Only what has been the same in all its versions is touched: functions, and the type
//! in front of a reply.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use crate::{Failure, Outcome};

unsafe extern "C" {
    fn redisConnect(host: *const c_char, port: c_int) -> *mut c_void;
    fn redisConnectUnix(path: *const c_char) -> *mut c_void;
    fn redisFree(context: *mut c_void);
    fn redisAppendCommandArgv(
        context: *mut c_void,
        count: c_int,
        arguments: *const *const c_char,
        lengths: *const usize,
    ) -> c_int;
    fn redisGetReply(context: *mut c_void, reply: *mut *mut c_void) -> c_int;
    fn freeReplyObject(reply: *mut c_void);
}

const ERROR: c_int = 6;

pub struct Context(*mut c_void);

impl Context {
    pub fn connect(url: &str) -> Outcome<Context> {
        // SAFETY: the strings end with a zero and outlive the calls.
        let context = unsafe {
            match url.strip_prefix("redis://") {
                Some(address) => {
                    let (host, port) = address.split_once(':').ok_or("no port")?;
                    let host = CString::new(host)?;
                    redisConnect(host.as_ptr(), port.parse()?)
                }
                None => {
                    let path = CString::new(crate::clients::path(url))?;
                    redisConnectUnix(path.as_ptr())
                }
            }
        };
        if context.is_null() { Err("hiredis cannot connect".into()) } else { Ok(Context(context)) }
    }

    /// The fastest way hiredis has to take a command: no format string to parse.
    pub fn append<const N: usize>(&mut self, arguments: [&str; N]) -> Outcome {
        let pointers = arguments.map(|argument| argument.as_ptr().cast::<c_char>());
        let lengths = arguments.map(str::len);
        // SAFETY: the arguments are copied before the call returns.
        let status = unsafe { redisAppendCommandArgv(self.0, N as c_int, pointers.as_ptr(), lengths.as_ptr()) };
        if status == 0 { Ok(()) } else { Err("hiredis cannot append".into()) }
    }

    pub fn reply(&mut self) -> Outcome {
        let mut reply = ptr::null_mut();
        // SAFETY: a reply that is returned is ours, and begins with its type.
        unsafe {
            if redisGetReply(self.0, &mut reply) != 0 || reply.is_null() {
                return Err("hiredis cannot read".into());
            }
            let kind = *reply.cast::<c_int>();
            freeReplyObject(reply);
            if kind == ERROR { Err(Failure::from("hiredis: an error reply")) } else { Ok(()) }
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was connected, and is not used again.
        unsafe { redisFree(self.0) }
    }
}
