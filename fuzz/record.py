#!/usr/bin/env python3
"""Records the replies of real servers as seeds: fuzz/corpus/*/seed-SERVER-PROTOCOL-GROUP.

Takes every server that `scripts/servers.sh paths` finds, in both protocols. The seeds are in the repository, so this runs
only when there is a new command or a new server. What tells about the machine is taken out of the replies.
"""

import pathlib, re, socket, subprocess, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz" / "corpus"

# By group: the commands, one a line or between bars, that are run in this order. Their replies are one seed, those of
# commands behind an exclamation mark left out. `#` is a space within a word.
TYPED = {
    "strings": """SET k v|GET k|GET none|SET k v GET|INCR n|INCRBYFLOAT n 1.5|MGET k none|GETRANGE k 0 -1|SETNX k v
        MSET a ohmytext b mynewtext|LCS a b|LCS a b IDX WITHMATCHLEN|LCS a b LEN|TTL k|PTTL none|EXPIRETIME k|TYPE k
        OBJECT ENCODING k|OBJECT IDLETIME k|SCAN 0 COUNT 2|EXISTS k none|BITFIELD k GET u8 0 OVERFLOW FAIL INCRBY u2 0 3
        PFADD p a|PFCOUNT p|LPUSH k 1|NOSUCH|WAIT 0 1|COPY k k2|RANDOMKEY|MIGRATE 127.0.0.1 1 none 0 10|DUMP none""",
    "hashes": """HSET h a 1 b 2|HGETALL h|HGETALL none|HMGET h a none|HRANDFIELD h 2 WITHVALUES|HSCAN h 0|HINCRBYFLOAT h a 1
        HEXPIRE h 100 FIELDS 2 a none|HTTL h FIELDS 2 a none|HPERSIST h FIELDS 2 a none|HKEYS h|HEXPIRETIME h FIELDS 1 a
        RPUSH l a b c|LRANGE l 0 -1|LPOP l 2|LPOP none 2|LMPOP 1 l LEFT COUNT 2|BLPOP none 0.01|LPOS l a COUNT 0
        SADD s a b|SADD s2 b c|SMEMBERS s|SINTER s s2|SSCAN s 0|SMISMEMBER s a c|SPOP s 1""",
    "sorted-sets": """ZADD z 1 a 2.5 b|ZADD zi inf a -inf b 3 c 1e300 d 0.1 e|ZRANGE z 0 -1|ZRANGE z 0 -1 WITHSCORES
        ZRANGE zi 0 -1 WITHSCORES|ZSCORE z a|ZSCORE z none|ZMSCORE z a none|ZRANK z a WITHSCORE|ZRANDMEMBER z 2 WITHSCORES
        ZPOPMIN z|ZPOPMIN none|ZADD z 1 a|ZPOPMAX z 2|ZMPOP 1 zi MIN COUNT 2|BZPOPMIN zi 1|ZSCAN zi 0|ZADD z INCR 1 a
        GEOADD geo 13.361389 38.115556 Palermo 15.087269 37.502669 Catania|GEOPOS geo Palermo none|GEODIST geo Palermo Catania km
        GEOSEARCH geo FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHCOORD WITHDIST WITHHASH|GEOHASH geo Palermo none""",
    "streams": """XADD x 1-1 f v g w|XADD x 2-1 f v2|XGROUP CREATE x g 0|XRANGE x - +|XREAD STREAMS x 0|XREAD STREAMS x 9
        XINFO STREAM x|XINFO GROUPS x|XREADGROUP GROUP g c1 COUNT 1 STREAMS x >|XPENDING x g|XPENDING x g - + 10
        XINFO STREAM x FULL|XINFO CONSUMERS x g|XCLAIM x g c2 0 1-1|XAUTOCLAIM x g c2 0 0|XAUTOCLAIM x g c2 0 0 JUSTID
        XDEL x 1-1|XREADGROUP GROUP g c2 STREAMS x 0|XAUTOCLAIM x g c3 0 0|XDELEX x IDS 2 2-1 9-9|XPENDING x g|XLEN x""",
    "scripts": """EVAL return{1,{2,'x'},{err='E#x'},false} 0|EVAL redis.setresp(3);return{double=3.5} 0|EVAL return{err='bad'} 0
        EVAL redis.setresp(3);return{map={a=1}} 0|EVAL redis.setresp(3);return{set={a=true}} 0|SCRIPT EXISTS ff
        EVALSHA ffffffffffffffffffffffffffffffffffffffff 0|FUNCTION LOAD #!lua#name=lib\\nredis.register_function{function_name='f',callback=function()#return#1#end,flags={'no-writes'}}
        FUNCTION LIST WITHCODE|FUNCTION STATS|FCALL f 0|VADD v VALUES 3 1 0 0 e1|VADD v VALUES 3 0 1 0 e2 SETATTR {"y":1}|VINFO v
        VSIM v ELE e1 WITHSCORES WITHATTRIBS|VSIM v ELE e1 WITHSCORES|VEMB v e1|VEMB v e1 RAW|VLINKS v e1 WITHSCORES""",
    "server": """INFO server|INFO keyspace|INFO commandstats|INFO errorstats|CONFIG GET maxmemory*|ROLE|TIME|MEMORY STATS
        CONFIG SET latency-monitor-threshold 1|CONFIG SET slowlog-log-slower-than 0|DEBUG SLEEP 0.003|LATENCY LATEST
        LATENCY HISTORY command|SLOWLOG GET 2|COMMANDLOG GET 2 slow|LATENCY HISTOGRAM config|MEMORY DOCTOR|MODULE LIST|LASTSAVE""",
    "clients": """ACL SETUSER u on >p ~a* %R~b &c +@read -get (~x +get)|ACL GETUSER u|ACL GETUSER none|ACL LIST|AUTH u wrong
        ACL LOG 1|ACL DRYRUN u set k v|ACL DRYRUN default get k|ACL WHOAMI|CLIENT SETNAME me|CLIENT LIST|CLIENT INFO
        CLIENT TRACKINGINFO|CLIENT TRACKING ON BCAST PREFIX a|CLIENT TRACKINGINFO|CLIENT ID|HELLO""",
    "commands": """COMMAND INFO get xread zunionstore none|COMMAND DOCS get|COMMAND DOCS latency|COMMAND GETKEYSANDFLAGS mset a 1 b 2""",
}
CLUSTER = {
    "cluster": """CLUSTER ADDSLOTSRANGE 0 16383|CLUSTER INFO|CLUSTER NODES|CLUSTER SLOTS|CLUSTER SHARDS|CLUSTER LINKS
        CLUSTER BUMPEPOCH|CLUSTER BUMPEPOCH|CLUSTER MYID|CLUSTER KEYSLOT a|CLUSTER SLOT-STATS SLOTSRANGE 0 1
        CLUSTER COUNTKEYSINSLOT 0|CLUSTER GETSLOTMIGRATIONS|CLUSTERSCAN 0|CLUSTER MIGRATION STATUS ALL|GET a""",
}
DECODER = """SET k v|GET k|GET none|INCR n|RPUSH l a b c|LRANGE l 0 -1|LPOP none 2|HSET h a 1 b 2|HGETALL h|SADD s a b|SMEMBERS s
    ZADD z 1 a 2.5 b|ZRANGE z 0 -1 WITHSCORES|XADD x 1-1 f v|XREAD STREAMS x 0|DEBUG PROTOCOL attrib|DEBUG PROTOCOL bignum
    DEBUG PROTOCOL verbatim|DEBUG PROTOCOL true|DEBUG PROTOCOL double|DEBUG PROTOCOL map|DEBUG PROTOCOL push|MULTI|GET k|LPUSH k 1
    EXEC|EVAL return{1,{err='E#x'},{}} 0|CLIENT TRACKING ON BCAST|SET k w|GET k|SUBSCRIBE c d|PUBLISH c m|UNSUBSCRIBE"""
# In the order of the target's own commands, so that the replies are of the right kinds.
PLAIN = """!RPUSH l a b c|!SADD s x y|!HSET h a 1|!ZADD z 1 a|!XADD x 1-1 f v|!SET k v|GET k|LRANGE l 0 -1|INCR n|SET k v|TIME|SMEMBERS s|GET k|HGETALL h|INCR n|SET k v|CONFIG GET maxmemory
    ZRANGE z 0 -1 WITHSCORES|GET k|LRANGE l 0 -1|INCR k|SET k v|XREAD STREAMS x 0|SMEMBERS s|GET none|LRANGE k 0 -1"""
MIXED = """!RPUSH l a b c|!HSET h a 1 b 2|!ZADD z 1 a|TIME|HGETALL h|SET a 1|GET a|LRANGE l 0 -1|MULTI|INCR a|GET a|ZRANGE z 0 -1|SET a 2|EXEC|SET a b|SELECT 3|WATCH a|MULTI
    DEL a|EXEC|PING"""


class Connection:
    def __init__(self, port, protocol):
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        self.file = self.socket.makefile("rb")
        if protocol == 3:
            self.call("HELLO 3")

    def call(self, line):
        """The reply, and the pushes in front of it or right behind it."""
        words = [word.replace("#", " ").replace(" !lua", "#!lua") for word in line.split(" ")]
        out = f"*{len(words)}\r\n" + "".join(f"${len(w.encode())}\r\n{w}\r\n" for w in words)
        self.socket.sendall(out.encode())
        reply = b""
        while True:
            frame = self.frame()
            reply += frame
            # A subscription is answered by pushes alone, in RESP2 by arrays that look like them.
            if frame[:1] != b">" or words[0].endswith("SUBSCRIBE"):
                break
        self.socket.settimeout(0.02)
        try:
            while self.socket.recv(1, socket.MSG_PEEK):
                reply += self.frame()
        except (TimeoutError, BlockingIOError):
            pass
        self.socket.settimeout(5)
        return reply

    def frame(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind in b"$=!" and rest != b"-1":
            body = self.file.read(int(rest) + 2)[:-2]
            body = clean(body)
            return kind + str(len(body)).encode() + b"\r\n" + body + b"\r\n"
        if kind in b"*~>%|" and rest != b"-1":
            count = int(rest) * (2 if kind in b"%|" else 1)
            # What an attribute is of is behind it.
            return line + b"".join(self.frame() for _ in range(count + (kind == b"|")))
        return line


def clean(body):
    body = re.sub(rb"(?m)^(executable|config_file|os|gcc_version|process_id|run_id):.*?(\r?)$", rb"\1:x\2", body)
    return re.sub(rb"/[\w./-]+/[\w./-]+", b"/srv/x", body)


def lines(commands):
    return [line.strip() for line in re.split(r"[|\n]", commands)]


def seed(target, name, head, body):
    # Nothing more is learned from the same bytes of another server.
    whole = head + body
    if not any(file.read_bytes() == whole for file in (CORPUS / target).glob("seed-*")):
        (CORPUS / target / f"seed-{name}").write_bytes(whole)


class Server:
    def __init__(self, path, cluster):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            # The bus of a cluster is 10,000 above.
            self.port = 10_000 + free.getsockname()[1] % 20_000
        self.dir = tempfile.TemporaryDirectory()
        options = ["--port", str(self.port), "--save", "", "--dir", self.dir.name, "--cluster-enabled", cluster,
                   "--enable-debug-command", "yes"]
        self.process = subprocess.Popen([path, *options], stdout=subprocess.DEVNULL)
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except OSError:
                time.sleep(0.05)

    def record(self, commands, protocol):
        connection = Connection(self.port, protocol)
        connection.call("FLUSHALL")
        replies = b""
        for line in lines(commands):
            reply = connection.call(line.removeprefix("!"))
            if not line.startswith("!"):
                replies += reply
        connection.socket.close()
        return replies

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.dir.cleanup()


def main():
    paths = subprocess.run(["sh", ROOT / "scripts" / "servers.sh", "paths"], capture_output=True, text=True, check=True)
    for target in ("typed", "decoder", "connection"):
        (CORPUS / target).mkdir(parents=True, exist_ok=True)
        for file in [*(CORPUS / target).glob("seed-redis-*"), *(CORPUS / target).glob("seed-valkey-*")]:
            file.unlink()
    for path in paths.stdout.split():
        version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout.split()
        name = version[0].lower() + "-" + version[2].removeprefix("v=")
        for protocol in (2, 3):
            server = Server(path, "no")
            of = f"{name}-resp{protocol}"
            for which, (group, commands) in enumerate(TYPED.items()):
                seed("typed", f"{of}-{group}", bytes([which]), server.record(commands, protocol))
            seed("decoder", of, b"\x07", server.record(DECODER, protocol))
            plain, mixed = server.record(PLAIN, protocol), server.record(MIXED, protocol)
            # The first two bytes of these say what the target does with the rest: see there.
            seed("connection", f"{of}-plain", b"\xc8\x42", plain)
            seed("connection", f"{of}-mixed", b"\xc8\xbf", mixed)
            greeting = server.record("HELLO 3|PING", protocol)
            # Three connections, of which the second is greeted by what the server said.
            again = b"\xfe".join([mixed[: len(mixed) // 2], greeting + b"+OK\r\n" + plain, plain])
            seed("connection", f"{of}-again", b"\xe0\x02", again)
            server.stop()
            server = Server(path, "yes")
            for group, commands in CLUSTER.items():
                seed("typed", f"{of}-{group}", b"\x00", server.record(commands, protocol))
            server.stop()


main()
