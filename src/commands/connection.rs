//! The connection itself, and the other clients of the server.

mod clients;
mod filters;
mod tracking;

pub use clients::*;
pub use filters::*;
pub use tracking::*;

use std::time::Duration;

use super::time::Millis;
use crate::args::{Arg, ToArg, cmd};
use crate::execute::Execute;
use crate::values::FromReply;

/// Commands on connections.
///
/// Those that change how the server treats this connection, such as CLIENT TRACKING, are in
/// [`SessionCommands`](super::SessionCommands), with AUTH and SELECT. CLIENT REPLY, HELLO, RESET and QUIT are refused, as
/// the queue of replies cannot bear them.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
///
/// conn.client_setname("worker").wait()?;
/// let clients = conn.client_list().wait()?;
/// assert!(clients.iter().any(|client| client.name == "worker" && client.db == 0));
/// # }
/// # Ok(())
/// # }
/// ```
pub trait ConnectionCommands: Execute {
    /// The name of this connection; nil if it has none. Since 2.6.9.
    ///
    /// [CLIENT GETNAME](https://redis.io/docs/latest/commands/client-getname/)
    fn client_getname(self) -> Self::Reply<Option<String>> {
        self.execute(cmd("CLIENT").arg("GETNAME"))
    }

    /// The ID of the client to which invalidation messages of this one are redirected; 0 if they come here, -1 if
    /// tracking is off. Since 6.0.
    ///
    /// [CLIENT GETREDIR](https://redis.io/docs/latest/commands/client-getredir/)
    fn client_getredir(self) -> Self::Reply<i64> {
        self.execute(cmd("CLIENT").arg("GETREDIR"))
    }

    /// The ID of this connection, which the server gives to no other. Since 5.0.
    ///
    /// [CLIENT ID](https://redis.io/docs/latest/commands/client-id/)
    fn client_id(self) -> Self::Reply<i64> {
        self.execute(cmd("CLIENT").arg("ID"))
    }

    /// What the server knows about this connection. Since 6.2.
    ///
    /// [CLIENT INFO](https://redis.io/docs/latest/commands/client-info/)
    fn client_info(self) -> Self::Reply<ClientInfo> {
        self.execute(cmd("CLIENT").arg("INFO"))
    }

    /// Closes the connection of the client with this address, `ip:port` or the path of a unix socket. An error if there
    /// is none. On one's own address the server answers first. Since 2.4.
    ///
    /// [CLIENT KILL](https://redis.io/docs/latest/commands/client-kill/)
    fn client_kill(self, address: impl ToArg) -> Self::Reply<()> {
        self.execute(cmd("CLIENT").arg("KILL").arg(address))
    }

    /// Closes the connections of all clients that meet all of these conditions. The reply is how many there were. A
    /// filter without conditions is an error here, before anything is sent. Since 2.8.12.
    ///
    /// [CLIENT KILL](https://redis.io/docs/latest/commands/client-kill/)
    fn client_kill_with(self, filter: ClientKillFilter) -> Self::Reply<i64> {
        self.execute(cmd("CLIENT").arg("KILL").args(filter))
    }

    /// What the server knows about its connections. Since 2.4.
    ///
    /// [CLIENT LIST](https://redis.io/docs/latest/commands/client-list/)
    fn client_list(self) -> Self::Reply<ClientList> {
        self.execute(cmd("CLIENT").arg("LIST"))
    }

    /// Like [`client_list`](ConnectionCommands::client_list), but only some of the connections. Since 5.0.
    ///
    /// [CLIENT LIST](https://redis.io/docs/latest/commands/client-list/)
    fn client_list_with(self, options: ClientListOptions) -> Self::Reply<ClientList> {
        self.execute(cmd("CLIENT").arg("LIST").options(options))
    }

    /// Holds the commands of all clients up for this time, rounded up to milliseconds. The reply comes at once; what is
    /// issued behind it, on this connection too, waits. The timeout of a wait does not know of that. Since 3.0.
    ///
    /// [CLIENT PAUSE](https://redis.io/docs/latest/commands/client-pause/)
    fn client_pause(self, time: Duration) -> Self::Reply<()> {
        self.execute(cmd("CLIENT").arg("PAUSE").arg(Millis(time)))
    }

    /// Like [`client_pause`](ConnectionCommands::client_pause), for all commands or only for those that write. Since
    /// 6.2.
    ///
    /// [CLIENT PAUSE](https://redis.io/docs/latest/commands/client-pause/)
    fn client_pause_with(self, time: Duration, mode: PauseMode) -> Self::Reply<()> {
        self.execute(cmd("CLIENT").arg("PAUSE").arg(Millis(time)).arg(mode))
    }

    /// How the server tracks which keys this connection has read. Since 6.2.
    ///
    /// [CLIENT TRACKINGINFO](https://redis.io/docs/latest/commands/client-trackinginfo/)
    fn client_trackinginfo(self) -> Self::Reply<TrackingInfo> {
        self.execute(cmd("CLIENT").arg("TRACKINGINFO"))
    }

    /// Ends the blocking command of another connection as if its time was up. The reply is whether there was one. Since
    /// 5.0.
    ///
    /// [CLIENT UNBLOCK](https://redis.io/docs/latest/commands/client-unblock/)
    fn client_unblock(self, id: i64) -> Self::Reply<bool> {
        self.execute(cmd("CLIENT").arg("UNBLOCK").arg(id))
    }

    /// Like [`client_unblock`](ConnectionCommands::client_unblock), and says what the other connection gets. Since 5.0.
    ///
    /// [CLIENT UNBLOCK](https://redis.io/docs/latest/commands/client-unblock/)
    fn client_unblock_with(self, id: i64, answer: UnblockAnswer) -> Self::Reply<bool> {
        self.execute(cmd("CLIENT").arg("UNBLOCK").arg(id).arg(answer))
    }

    /// Ends what [`client_pause_with`](ConnectionCommands::client_pause_with) began with [`PauseMode::Write`]. While all
    /// commands are held up, so is this one. Since 6.2.
    ///
    /// [CLIENT UNPAUSE](https://redis.io/docs/latest/commands/client-unpause/)
    fn client_unpause(self) -> Self::Reply<()> {
        self.execute(cmd("CLIENT").arg("UNPAUSE"))
    }

    /// The same message again. Since 1.0.
    ///
    /// [ECHO](https://redis.io/docs/latest/commands/echo/)
    fn echo<T: FromReply>(self, message: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("ECHO").arg(message))
    }

    /// Nothing but a reply. Since 1.0.
    ///
    /// [PING](https://redis.io/docs/latest/commands/ping/)
    #[inline]
    fn ping(self) -> Self::Reply<()> {
        self.execute(cmd("PING"))
    }

    /// The same message again. Since 2.8.
    ///
    /// [PING](https://redis.io/docs/latest/commands/ping/)
    fn ping_message<T: FromReply>(self, message: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("PING").arg(message))
    }
}

/// What is set for this connection alone, and stays so for every command behind it. Not on a [`Shared`](crate::Shared), which
/// is the connection of others as well: its [`Config`](crate::Config) has a name for it.
pub trait ClientSettingCommands: Execute {
    /// Whether this connection is left out when clients are evicted for their memory. Since 7.0.
    ///
    /// [CLIENT NO-EVICT](https://redis.io/docs/latest/commands/client-no-evict/)
    fn client_no_evict(self, on: bool) -> Self::Reply<()> {
        self.command("CLIENT NO-EVICT", on_off(on))
    }

    /// Whether the commands of this connection leave alone how recently and how often a key was used. Since 7.2.
    ///
    /// [CLIENT NO-TOUCH](https://redis.io/docs/latest/commands/client-no-touch/)
    fn client_no_touch(self, on: bool) -> Self::Reply<()> {
        self.command("CLIENT NO-TOUCH", on_off(on))
    }

    /// Tells the server about the library that uses this connection. Since 7.2.
    ///
    /// This crate does so for itself when it connects. A framework on top of it may call itself `redefer(framework)`.
    ///
    /// [CLIENT SETINFO](https://redis.io/docs/latest/commands/client-setinfo/)
    fn client_setinfo(self, attribute: ClientAttribute, value: impl ToArg) -> Self::Reply<()> {
        self.execute(cmd("CLIENT").arg("SETINFO").arg(attribute).arg(value))
    }

    /// Names this connection; an empty name takes its name away. No spaces. Since 2.6.9.
    ///
    /// [CLIENT SETNAME](https://redis.io/docs/latest/commands/client-setname/)
    fn client_setname(self, name: impl ToArg) -> Self::Reply<()> {
        self.command("CLIENT SETNAME", name)
    }
}

fn on_off(on: bool) -> &'static str {
    if on { "ON" } else { "OFF" }
}

/// What [`client_pause_with`](ConnectionCommands::client_pause_with) holds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PauseMode {
    /// Commands that may write.
    Write,
    /// All commands.
    All,
}

impl ToArg for PauseMode {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(match self {
            PauseMode::Write => "WRITE",
            PauseMode::All => "ALL",
        })
    }
    const DIRECT: bool = true;
}

/// What a blocking command answers that [`client_unblock_with`](ConnectionCommands::client_unblock_with) ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnblockAnswer {
    /// The same as when its time is up, mostly nil.
    Timeout,
    /// The error `UNBLOCKED`.
    Error,
}

impl ToArg for UnblockAnswer {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(match self {
            UnblockAnswer::Timeout => "TIMEOUT",
            UnblockAnswer::Error => "ERROR",
        })
    }
    const DIRECT: bool = true;
}

/// What [`client_setinfo`](ClientSettingCommands::client_setinfo) can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientAttribute {
    /// The name of the library.
    LibName,
    /// The version of the library.
    LibVer,
}

impl ToArg for ClientAttribute {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(match self {
            ClientAttribute::LibName => "LIB-NAME",
            ClientAttribute::LibVer => "LIB-VER",
        })
    }
    const DIRECT: bool = true;
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;

    impl ClientSettingCommands for &Recorder {}
    impl ConnectionCommands for &Recorder {}

    #[test]
    fn connection_commands_are_encoded() {
        assert_eq!(sent(|on| on.client_getname()), "CLIENT GETNAME");
        assert_eq!(sent(|on| on.client_getredir()), "CLIENT GETREDIR");
        assert_eq!(sent(|on| on.client_id()), "CLIENT ID");
        assert_eq!(sent(|on| on.client_info()), "CLIENT INFO");
        assert_eq!(sent(|on| on.client_kill("1.1.1.1:1")), "CLIENT KILL 1.1.1.1:1");
        assert_eq!(sent(|on| on.client_list()), "CLIENT LIST");
        assert_eq!(sent(|on| on.client_no_evict(true)), "CLIENT NO-EVICT ON");
        assert_eq!(sent(|on| on.client_no_touch(false)), "CLIENT NO-TOUCH OFF");
        assert_eq!(sent(|on| on.client_pause(Duration::from_micros(1_500))), "CLIENT PAUSE 2");
        assert_eq!(
            sent(|on| on.client_pause_with(Duration::from_secs(1), PauseMode::Write)),
            "CLIENT PAUSE 1000 WRITE"
        );
        assert_eq!(sent(|on| on.client_pause_with(Duration::ZERO, PauseMode::All)), "CLIENT PAUSE 0 ALL");
        assert_eq!(
            sent(|on| on.client_setinfo(ClientAttribute::LibName, "redefer(x)")),
            "CLIENT SETINFO LIB-NAME redefer(x)"
        );
        assert_eq!(sent(|on| on.client_setinfo(ClientAttribute::LibVer, "1")), "CLIENT SETINFO LIB-VER 1");
        assert_eq!(sent(|on| on.client_setname("me")), "CLIENT SETNAME me");
        assert_eq!(sent(|on| on.client_trackinginfo()), "CLIENT TRACKINGINFO");
        assert_eq!(sent(|on| on.client_unblock(7)), "CLIENT UNBLOCK 7");
        assert_eq!(sent(|on| on.client_unblock_with(7, UnblockAnswer::Timeout)), "CLIENT UNBLOCK 7 TIMEOUT");
        assert_eq!(sent(|on| on.client_unblock_with(7, UnblockAnswer::Error)), "CLIENT UNBLOCK 7 ERROR");
        assert_eq!(sent(|on| on.client_unpause()), "CLIENT UNPAUSE");
        assert_eq!(sent(|on| on.echo::<String>("x")), "ECHO x");
        assert_eq!(sent(|on| on.ping()), "PING");
        assert_eq!(sent(|on| on.ping_message::<String>("x")), "PING x");
    }

    #[test]
    fn clients_are_listed_and_killed_by_conditions() {
        assert_eq!(sent(|on| on.client_list_with(ClientListOptions::new())), "CLIENT LIST");
        assert_eq!(
            sent(|on| on.client_list_with(ClientListOptions::new().ids([1, 2]).ids([3]))),
            "CLIENT LIST ID 1 2 3"
        );
        let replicas = ClientListOptions::new().client_type(ClientType::Replica);
        assert_eq!(sent(|on| on.client_list_with(replicas)), "CLIENT LIST TYPE REPLICA");

        assert_eq!(sent(|on| on.client_kill_with(ClientKillFilter::new())), "refused");
        let filter = ClientKillFilter::new().id(5).client_type(ClientType::PubSub).user("bob").skip_me(false);
        assert_eq!(sent(|on| on.client_kill_with(filter)), "CLIENT KILL ID 5 TYPE PUBSUB USER bob SKIPME NO");
        let filter = ClientKillFilter::new().address("a:1").local_address("b:2").max_age(Duration::from_millis(1_001));
        assert_eq!(
            sent(|on| on.client_kill_with(filter.skip_me(true))),
            "CLIENT KILL ADDR a:1 LADDR b:2 MAXAGE 2 SKIPME YES"
        );
        let filter = ClientKillFilter::new().id(7).id(5).ids([6]).ids([]).not_ids([]).user("a").user("b");
        assert_eq!(sent(|on| on.client_kill_with(filter)), "CLIENT KILL ID 5 6 USER b");
        assert_eq!(sent(|on| on.client_kill_with(ClientKillFilter::new().ids([]))), "refused");
        let kinds = [ClientType::Normal, ClientType::Master].map(|kind| ClientKillFilter::new().client_type(kind));
        let texts = kinds.map(|filter| sent(|on| on.client_kill_with(filter)));
        assert_eq!(texts, ["CLIENT KILL TYPE NORMAL", "CLIENT KILL TYPE MASTER"]);
    }
}
