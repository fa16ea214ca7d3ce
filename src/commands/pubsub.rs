//! Messages: the sending side, and who listens.

use crate::args::{ToArg, ToArgs, cmd};
use crate::execute::Execute;
use crate::values::FromReply;

/// Commands that send messages to channels and ask about channels.
///
/// Those that subscribe are not here: they do not answer once. A connection that listens is a
/// [`Subscriber`](crate::pubsub::Subscriber); in RESP3 one for commands can listen too, by [`Connection::subscribe`](crate::Connection::subscribe).
pub trait PubSubCommands: Execute {
    /// Sends a message to the subscribers of a channel. The reply is how many got it, those of other nodes of a cluster
    /// not counted. Since 2.0.
    ///
    /// [PUBLISH](https://redis.io/docs/latest/commands/publish/)
    #[inline]
    fn publish(self, channel: impl ToArg, message: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("PUBLISH").arg(channel).arg(message))
    }

    /// The channels that have subscribers, patterns not counted. Never nil. Since 2.8.
    ///
    /// [PUBSUB CHANNELS](https://redis.io/docs/latest/commands/pubsub-channels/)
    fn pubsub_channels<T: FromReply>(self) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("PUBSUB").arg("CHANNELS"))
    }

    /// Like [`pubsub_channels`](PubSubCommands::pubsub_channels), but only those whose names match a pattern.
    ///
    /// [PUBSUB CHANNELS](https://redis.io/docs/latest/commands/pubsub-channels/)
    fn pubsub_channels_with<T: FromReply>(self, pattern: impl ToArg) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("PUBSUB").arg("CHANNELS").arg(pattern))
    }

    /// How many patterns are subscribed to. Since 2.8.
    ///
    /// [PUBSUB NUMPAT](https://redis.io/docs/latest/commands/pubsub-numpat/)
    fn pubsub_numpat(self) -> Self::Reply<i64> {
        self.execute(cmd("PUBSUB").arg("NUMPAT"))
    }

    /// Each of these channels with the number of its subscribers, those by pattern not counted. Since 2.8.
    ///
    /// [PUBSUB NUMSUB](https://redis.io/docs/latest/commands/pubsub-numsub/)
    fn pubsub_numsub<T: FromReply>(self, channels: impl ToArgs) -> Self::MultiBulk<(T, i64)> {
        self.execute_multi(cmd("PUBSUB").arg("NUMSUB").options(channels))
    }

    /// The shard channels of this node that have subscribers. Never nil. Since 7.0.
    ///
    /// [PUBSUB SHARDCHANNELS](https://redis.io/docs/latest/commands/pubsub-shardchannels/)
    fn pubsub_shardchannels<T: FromReply>(self) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("PUBSUB").arg("SHARDCHANNELS"))
    }

    /// Like [`pubsub_shardchannels`](PubSubCommands::pubsub_shardchannels), but only those whose names match a pattern.
    ///
    /// [PUBSUB SHARDCHANNELS](https://redis.io/docs/latest/commands/pubsub-shardchannels/)
    fn pubsub_shardchannels_with<T: FromReply>(self, pattern: impl ToArg) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("PUBSUB").arg("SHARDCHANNELS").arg(pattern))
    }

    /// Each of these shard channels with the number of its subscribers. Since 7.0.
    ///
    /// [PUBSUB SHARDNUMSUB](https://redis.io/docs/latest/commands/pubsub-shardnumsub/)
    fn pubsub_shardnumsub<T: FromReply>(self, channels: impl ToArgs) -> Self::MultiBulk<(T, i64)> {
        self.execute_multi(cmd("PUBSUB").arg("SHARDNUMSUB").options(channels))
    }

    /// Sends a message to the subscribers of a shard channel, which belongs to a slot of a cluster as a key does. The
    /// reply is how many got it, replicas' subscribers not counted. Since 7.0.
    ///
    /// [SPUBLISH](https://redis.io/docs/latest/commands/spublish/)
    fn spublish(self, channel: impl ToArg, message: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("SPUBLISH").key(channel).arg(message))
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;

    impl PubSubCommands for &Recorder {}

    #[test]
    fn pubsub_commands_are_encoded() {
        assert_eq!(sent(|on| on.publish("c", "m")), "PUBLISH c m");
        assert_eq!(sent(|on| on.pubsub_channels::<String>()), "PUBSUB CHANNELS");
        assert_eq!(sent(|on| on.pubsub_channels_with::<String>("a*")), "PUBSUB CHANNELS a*");
        assert_eq!(sent(|on| on.pubsub_numpat()), "PUBSUB NUMPAT");
        assert_eq!(sent(|on| on.pubsub_numsub::<String>(["a", "b"])), "PUBSUB NUMSUB a b");
        assert_eq!(sent(|on| on.pubsub_numsub::<String>(())), "PUBSUB NUMSUB");
        assert_eq!(sent(|on| on.pubsub_shardchannels::<String>()), "PUBSUB SHARDCHANNELS");
        assert_eq!(sent(|on| on.pubsub_shardchannels_with::<String>("a*")), "PUBSUB SHARDCHANNELS a*");
        assert_eq!(sent(|on| on.pubsub_shardnumsub::<String>("a")), "PUBSUB SHARDNUMSUB a");
        assert_eq!(sent(|on| on.spublish("c", "m")), "SPUBLISH [c] m");
    }
}
