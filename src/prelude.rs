//! Everything a program needs, for one `use redefer::prelude::*`: the command traits and the main types.
//!
//! The traits of handles in generic code, [`Handle`](crate::commands::Handle) and
//! [`Elements`](crate::commands::Elements), are here without their names: import them to write them in a bound.
//!
//! Options and replies of commands, such as [`SetOptions`](crate::commands::SetOptions) and
//! [`Entry`](crate::commands::Entry), are in [`commands`](crate::commands) and not here: they are many, and some have names
//! that a program may have for something else. Import those by name.
//!
//! [`Result`](crate::Result) is not here, so that it does not hide the one of the standard library.

pub use crate::args::{self, ToArg, ToArgs, ToPairs};
pub use crate::commands::{
    BitmapCommands, BlockingKeyCommands, BlockingListCommands, BlockingSortedSetCommands, BlockingStreamCommands,
    ClientSettingCommands, ClusterCommands, ConnectionCommands, Elements as _, Execute, GeoCommands, Handle as _,
    HashCommands, HyperLogLogCommands, KeyCommands, ListCommands, PubSubCommands, ScanCommands, ScanPageCommands,
    ScriptingCommands, ServerCommands, SessionCommands, SetCommands, SortedSetCommands, StreamCommands, StringCommands,
    VectorSetCommands,
};
pub use crate::{
    Batch, Config, Connection, Error, FromReply, MultiBulk, Queued, Reply, Script, Shared, Transaction, Value,
};
