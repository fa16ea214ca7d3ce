//! Types of one's own as arguments (`ToArg`, `ToArgs`, `ToPairs`) and as replies (`FromReply`): a key, a record in a
//! hash, and an enum in a string.

use std::collections::HashMap;

use redefer::args::{Arg, ArgWriter};
use redefer::resp::Frame;
use redefer::testing::Server;
use redefer::{Result, prelude::*};

/// A key: one argument.
struct UserKey(u64);

impl ToArg for UserKey {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(format!("user:{}", self.0))
    }
}

/// One word, both ways.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Reader,
    Writer,
}

impl ToArg for Role {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(match self {
            Role::Reader => "reader",
            Role::Writer => "writer",
        })
    }
}

impl FromReply for Role {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        match frame.as_bytes() {
            Some(b"reader") => Ok(Role::Reader),
            Some(b"writer") => Ok(Role::Writer),
            Some(_) => Err(Error::custom("a role is reader or writer")),
            None => Err(Error::unexpected("a role", &frame)),
        }
    }
}

/// A record: fields and values for HSET, and what HGETALL answers.
#[derive(Debug, PartialEq)]
struct User {
    name: String,
    logins: i64,
}

impl ToArgs for &User {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        ("name", &self.name, "logins", self.logins).write_args(out);
    }
}

/// `write_args` writes arguments in twos.
impl ToPairs for &User {}

impl FromReply for User {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut fields = HashMap::<String, String>::from_reply(frame)?;
        let mut field = |name: &str| fields.remove(name).ok_or_else(|| Error::custom(format!("no field {name}")));
        Ok(User { name: field("name")?, logins: field("logins")?.parse().map_err(Error::custom)? })
    }
}

fn main() -> Result<()> {
    // A private server, or the one whose URL is the first argument.
    let server;
    let url = match std::env::args().nth(1) {
        Some(url) => url,
        None => {
            server = Server::start()?;
            server.url()
        }
    };
    let conn = Connection::open(url)?;
    conn.del(["role", "user:7", "user:8"]).wait()?;

    conn.set("role", Role::Writer).wait()?;
    assert_eq!(conn.get::<Role>("role").wait()?, Role::Writer);

    let ada = User { name: "Ada".into(), logins: 3 };
    conn.hset(UserKey(7), &ada).wait()?;
    // `hgetall` gives field after field; `wait_as` takes the reply as one value.
    assert_eq!(conn.hgetall::<String, String>(UserKey(7)).wait_as::<User>()?, ada);

    // What cannot be decoded is that handle's error, and the connection goes on.
    let (missing, name) = (conn.command::<User>("HGETALL", UserKey(8)), conn.hget::<String>(UserKey(7), "name"));
    assert_eq!(missing.wait().unwrap_err().to_string(), "no field name");
    assert_eq!(name.wait()?, "Ada");
    assert!(matches!(conn.hget::<Role>(UserKey(7), "name").wait(), Err(Error::Custom(_))));
    println!("everything was as it should be");
    Ok(())
}
