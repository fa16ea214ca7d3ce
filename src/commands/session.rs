//! What changes the connection: who it is, which database it is on, how the server treats it, and its end.

use std::io::ErrorKind;

use crate::args::{ToArg, ToArgs, cmd};
use crate::commands::parts::AtLeastOne;
use crate::commands::{Handle, ShutdownOptions, TrackingOptions};
use crate::error::{Error, Result, Sent};
use crate::execute::Execute;

/// Commands that change the connection for every command behind them. Only on a connection of one's own.
pub trait SessionCommands: Execute {
    /// Logs in as a user; `default` is the one that `requirepass` is for.
    ///
    /// Reads every earlier reply, is sent alone, and is waited for before this returns: one server loses the reply of a
    /// failing AUTH behind others. The handle then holds the outcome. Of an error only the code word is kept, such as
    /// `WRONGPASS`, since its text may repeat the password. After a failed login the old one stays in force.
    ///
    /// Since 6.0 with a user; `AUTH password` alone is what [`Config::password`](crate::Config::password) sends to older
    /// servers.
    ///
    /// [AUTH](https://redis.io/docs/latest/commands/auth/)
    fn auth(self, user: impl ToArg, password: impl ToArg) -> Self::Reply<()> {
        self.command("AUTH", (user, password))
    }

    /// Changes the database. [`Connection::database`](crate::Connection::database) follows when the server has agreed.
    ///
    /// Since 1.0.
    ///
    /// [SELECT](https://redis.io/docs/latest/commands/select/)
    fn select(self, database: u32) -> Self::Reply<()> {
        self.command("SELECT", database)
    }

    /// Lets the next command go to a key in a slot that is being imported, in a cluster. It is meant for the one command
    /// that a server has answered with `ASK`. Since 3.0.
    ///
    /// [ASKING](https://redis.io/docs/latest/commands/asking/)
    fn asking(self) -> Self::Reply<()> {
        self.execute(cmd("ASKING"))
    }

    /// Whether what the next command reads is tracked, with [`optin`](TrackingOptions::optin) or
    /// [`optout`](TrackingOptions::optout). Since 6.0.
    ///
    /// [CLIENT CACHING](https://redis.io/docs/latest/commands/client-caching/)
    fn client_caching(self, yes: bool) -> Self::Reply<()> {
        self.execute(cmd("CLIENT").arg("CACHING").arg(if yes { "YES" } else { "NO" }))
    }

    /// Says what the client can do beyond the protocol: `redirect` for `REDIRECT` errors, which are then the value of the
    /// handles of commands that a replica refuses. Since Valkey 8.0.
    ///
    /// [CLIENT CAPA](https://valkey.io/commands/client-capa/)
    fn client_capa(self, capabilities: impl ToArgs) -> Self::Reply<()> {
        self.command("CLIENT CAPA", AtLeastOne(capabilities))
    }

    /// Whether the connection brings data from elsewhere to a server in import mode, so that keys do not expire for it.
    /// Since Valkey 8.1.
    ///
    /// [CLIENT IMPORT-SOURCE](https://valkey.io/commands/client-import-source/)
    fn client_import_source(self, on: bool) -> Self::Reply<()> {
        self.command("CLIENT IMPORT-SOURCE", if on { "ON" } else { "OFF" })
    }

    /// Whether the server tracks the keys that the connection reads, and says when they change. Since 6.0.
    ///
    /// The messages are pushes, which this version skips: [`TrackingOptions::redirect`] sends them to another client,
    /// and in RESP2 that is a must.
    ///
    /// [CLIENT TRACKING](https://redis.io/docs/latest/commands/client-tracking/)
    fn client_tracking(self, on: bool) -> Self::Reply<()> {
        self.command("CLIENT TRACKING", if on { "ON" } else { "OFF" })
    }

    /// Like [`client_tracking`](SessionCommands::client_tracking) with `true`, and says what is tracked for whom.
    ///
    /// [CLIENT TRACKING](https://redis.io/docs/latest/commands/client-tracking/)
    fn client_tracking_with(self, options: TrackingOptions) -> Self::Reply<()> {
        self.command("CLIENT TRACKING ON", options)
    }

    /// Lets the connection read from a replica of a cluster, which may lag behind, rather than be sent to its primary.
    /// Since 3.0.
    ///
    /// [READONLY](https://redis.io/docs/latest/commands/readonly/)
    fn readonly(self) -> Self::Reply<()> {
        self.command("READONLY", ())
    }

    /// Takes [`readonly`](SessionCommands::readonly) back. Since 3.0.
    ///
    /// [READWRITE](https://redis.io/docs/latest/commands/readwrite/)
    fn readwrite(self) -> Self::Reply<()> {
        self.command("READWRITE", ())
    }

    /// Ends the server, as its settings say: see [`shutdown_with`](SessionCommands::shutdown_with).
    ///
    /// [SHUTDOWN](https://redis.io/docs/latest/commands/shutdown/)
    fn shutdown(self) -> Result<()> {
        self.shutdown_with(ShutdownOptions::new())
    }

    /// Ends the server. Since 1.0.
    ///
    /// A server that ends does not answer: it closes the connection. So this waits by itself, and the end of the
    /// connection behind the whole command is success, after which the connection is broken. A server that waits for its
    /// replicas or saves much may take longer than the connection's timeout: that is [`Error::Timeout`], and it goes on.
    /// The server may keep the replies of commands right in front of this one to itself: wait for those first.
    ///
    /// # Errors
    ///
    /// What the server says if it does not end, for instance because it cannot save; and whatever breaks the connection
    /// before the command is sent.
    ///
    /// [SHUTDOWN](https://redis.io/docs/latest/commands/shutdown/)
    fn shutdown_with(self, options: ShutdownOptions) -> Result<()> {
        match self.execute::<(), _>(cmd("SHUTDOWN").options(options)).wait() {
            Err(Error::ConnectionLost(lost)) if lost.sent() == Sent::Fully && is_end(lost.cause()) => Ok(()),
            other => other,
        }
    }
}

/// Whether a connection was lost because the other side closed it.
fn is_end(cause: &Error) -> bool {
    matches!(cause, Error::Io(error) if matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe
    ))
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;

    impl SessionCommands for &Recorder {}

    #[test]
    fn session_commands_are_encoded() {
        assert_eq!(sent(|on| on.asking()), "ASKING");
        assert_eq!(sent(|on| on.client_caching(true)), "CLIENT CACHING YES");
        assert_eq!(sent(|on| on.client_caching(false)), "CLIENT CACHING NO");
        assert_eq!(sent(|on| on.client_capa("redirect")), "CLIENT CAPA redirect");
        assert_eq!(sent(|on| on.client_capa(())), "refused");
        assert_eq!(sent(|on| on.client_import_source(true)), "CLIENT IMPORT-SOURCE ON");
        assert_eq!(sent(|on| on.client_tracking(false)), "CLIENT TRACKING OFF");
        assert_eq!(sent(|on| on.client_tracking_with(TrackingOptions::new())), "CLIENT TRACKING ON");
        let all = TrackingOptions::new().redirect(7).prefix("a").prefix("b").bcast().optin().optout().noloop();
        assert_eq!(
            sent(|on| on.client_tracking_with(all)),
            "CLIENT TRACKING ON REDIRECT 7 PREFIX a PREFIX b BCAST OPTIN OPTOUT NOLOOP"
        );
        assert_eq!(sent(|on| on.readonly()), "READONLY");
        assert_eq!(sent(|on| on.readwrite()), "READWRITE");
        assert_eq!(sent(|on| on.shutdown()), "SHUTDOWN");
        let all = ShutdownOptions::new().save(false).now().force().safe().failover();
        assert_eq!(sent(|on| on.shutdown_with(all)), "SHUTDOWN NOSAVE NOW FORCE SAFE FAILOVER");
        assert_eq!(sent(|on| on.shutdown_with(ShutdownOptions::new().save(true))), "SHUTDOWN SAVE");
    }
}
