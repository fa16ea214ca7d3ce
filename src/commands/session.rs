//! Who the connection is, and which database it is on.

use crate::args::ToArg;
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
}
