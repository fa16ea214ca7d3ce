//! Every type that a reply is decoded into, against random frames: each is an error or a value, and never a panic.

#[path = "support/typed.rs"]
mod typed;

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

use redefer::commands::*;
use redefer::resp::Decoder;
use redefer::{FromReply, Value};

use typed::{Fields, all_types, asked, types};

/// A small generator of its own (SplitMix64), so that a seed means the same frames for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

/// Names that servers use, so that the fields behind them are decoded at all.
const NAMES: &str = "\
    length radix-tree-keys radix-tree-nodes last-generated-id max-deleted-entry-id entries-added \
    recorded-first-entry-id first-entry last-entry entries groups name consumers pending pel pel-count \
    entries-read lag last-delivered-id seen-time active-time idle inactive library_name engine functions \
    library_code description flags running_script engines command duration_ms libraries_count functions_count \
    quant-type vector-dim size hnsw-m projection-input-dim max-level attributes-count vset-uid hnsw-max-node-uid \
    direction node create-time events send-buffer-allocated send-buffer-used id slots nodes port tls-port ip \
    endpoint hostname availability-zone role replication-offset health key-count cpu-usec network-bytes-in \
    network-bytes-out operation slot_ranges create_time last_update_time last_ack_time state message cow_size \
    begin_search find_keys notes type spec index keyword startfrom range lastkey keystep limit keynum keynumidx \
    firstkey summary since group complexity doc_flags deprecated_since replaced_by history arguments subcommands \
    module token display_text key_spec_index calls histogram_usec passwords commands keys channels databases \
    selectors count reason context object username age-seconds client-info entry-id timestamp-created \
    timestamp-last-updated ver path args redirect prefixes peak.allocated total.allocated overhead.total \
    keys.count dataset.bytes dataset.percentage peak.percentage fragmentation db.0 overhead.hashtable.main \
    matches len master slave replica sentinel OK QUEUED BUMPED STILL";

/// Texts that are at the edge of what a parser takes.
const TEXTS: &[&str] = &[
    "",
    " ",
    "-",
    "--",
    "0",
    "-0",
    "1",
    "-1",
    "-2",
    "-3",
    "2",
    "16383",
    "65535",
    "65536",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211455",
    "+1",
    "01",
    "1.5",
    "-1.5",
    "1e308",
    "1e309",
    "1e19",
    "-1e19",
    "nan",
    "inf",
    "-inf",
    "1-1",
    "1-",
    "-1-1",
    "18446744073709551615-18446744073709551615",
    "1-2-3",
    "é",
    "\u{0}",
    "\r",
    "\n",
    "=",
    ":",
    "a=",
    "=b",
    "a=b c",
    "id=1 addr=é:1 name= age=-1 idle=18446744073709551615 flags=N db=-1 \n\nid=\n",
    "# ",
    "#\n#\n:\n::\na:\n:b",
    "# Keyspace\r\ndb0:keys=1,expires=,avg_ttl=18446744073709551615\r\ndb:\r\ndb99999999999:keys=x\r\ndb1:=,,=,",
    "# Commandstats\ncmdstat_:calls=1,usec=18446744073709551615\ncmdstat_a:\n\
        # Errorstats\nerrorstat_:count=\nerrorstat_E:count=9",
    "uptime_in_seconds:18446744073709551615\nused_memory:-1\nredis_version:",
    "cluster_state:ok\ncluster_known_nodes:\n:",
    "id ip:1@2,h,a=b,c master - 0 18446744073709551615 1 connected 0-16383 [5->-x] [6-<-y] [] [ ] 5-1 - 70000 [7->-",
    "id :0@0 myself,slave,fail? p 1 2 3 disconnected é [é->-é]\n\nid",
    "id 1 2",
    "id @ a - 0 0 0 x",
    "id ::1:x@y a b c d e f",
    "id a:b:c@d,e=f myself - 0 0 99 connected",
    "BUMPED 1",
    "STILL ",
    "BUMPED -1",
    "%R~a %W~b",
    "resp3,version=x",
];

fn line(text: &str) -> String {
    text.replace(['\r', '\n'], "_")
}

fn text(random: &mut Random, out: &mut Vec<u8>, names: &[&str]) {
    let bytes: Vec<u8> = match random.below(8) {
        0..=2 => random.of(names).into(),
        3..=5 => random.of(TEXTS).into(),
        6 => {
            // A text that is cut or damaged.
            let mut bytes = random.of(TEXTS).as_bytes().to_vec();
            bytes.truncate(random.below(bytes.len() + 1));
            if !bytes.is_empty() {
                let at = random.below(bytes.len());
                bytes[at] = random.next() as u8;
            }
            bytes
        }
        _ => (0..random.below(6)).map(|_| random.next() as u8).collect(),
    };
    out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(&bytes);
    out.extend_from_slice(b"\r\n");
}

fn scalar(random: &mut Random, out: &mut Vec<u8>, names: &[&str]) {
    let numbers =
        [0, 1, -1, -2, -3, 2, 7, 65_535, 65_536, 1 << 32, i64::MAX, i64::MIN, 253_402_300_800, 1_700_000_000_000];
    let written = match random.below(17) {
        0..=5 => return text(random, out, names),
        6 | 7 => format!(":{}", numbers[random.below(numbers.len())]),
        8 => format!(":{}", random.next() as i64),
        9 => format!("+{}", line(random.of(names))),
        10 => format!("+{}", line(random.of(TEXTS))),
        11 => format!(",{}", random.of(&["0", "-0", "1.5", "-1.5", "1e19", "-1e300", "1e308", "inf", "-inf", "nan"])),
        12 => random.of(&["$-1", "*-1", "_"]).to_owned(),
        13 => random.of(&["#t", "#f"]).to_owned(),
        14 => format!("({}", random.of(&["18446744073709551616", "-9223372036854775809", "0", "7"])),
        15 => {
            let text = random.of(TEXTS);
            format!("={}\r\ntxt:{text}", text.len() + 4)
        }
        _ => format!("-{}", random.of(&["ERR x", "", "NOSCRIPT No matching script.", "MOVED 1 :1"])),
    };
    out.extend_from_slice(written.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes a tree of frames of at most this depth.
fn tree(random: &mut Random, out: &mut Vec<u8>, depth: usize, names: &[&str]) {
    if depth == 0 || random.below(8) < 2 {
        return scalar(random, out, names);
    }
    let count = [0, 1, 2, 2, 3, 4, 5, 6, 7, 10][random.below(10)];
    // Names and values, a list of anything, or a list of the same kind.
    let shape = random.below(4);
    match random.below(6) {
        0 | 1 => {
            out.extend_from_slice(format!("%{count}\r\n").as_bytes());
            for _ in 0..count {
                if random.below(10) == 0 {
                    tree(random, out, depth - 1, names)
                } else {
                    text(random, out, names)
                }
                tree(random, out, depth - 1, names);
            }
        }
        kind => {
            out.extend_from_slice(format!("{}{count}\r\n", if kind == 2 { '~' } else { '*' }).as_bytes());
            for n in 0..count {
                match shape {
                    0 | 1 if n % 2 == 0 => text(random, out, names),
                    2 => scalar(random, out, names),
                    _ => tree(random, out, depth - 1, names),
                }
            }
        }
    }
}

/// Replies as servers send them, one for each shape. A token is an element: `*`, `%` and `~` with a count, `:` `,` `#`
/// `+` and `_` as on the wire, and every other one is a bulk string, in which `^` is a space and `|` the end of a line.
const REPLIES: &[&str] = &[
    "+OK",
    "QUEUED",
    "$1",
    ":1",
    ":-1",
    ":2",
    "abcd",
    "#t",
    "*3 :1 :2 :3",
    "*3 a :1 ,1.5",
    "*2 :1700000000 :5",
    "*2 17 *2 a b",
    "*4 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 len :4",
    "*3 *2 :4 :7 *2 :5 :8 :4",
    "1-1",
    "*2 1-1 *4 a b c d",
    "*2 1-1 _",
    "*1 *2 key *2 *2 1-1 *2 a b *2 2-1 *2 c d",
    "%1 key *1 *2 1-1 *2 a b",
    "%8 length :2 radix-tree-keys :1 last-generated-id 2-1 entries-added :2 groups :1 first-entry *2 1-1 *2 a b \
        last-entry _ \
        new *2 :1 :2",
    "%3 length :2 entries *1 *2 1-1 *2 a b groups *1 %7 name g last-delivered-id 1-1 entries-read _ lag :3 \
        pel-count :1 \
        pending *1 *4 1-1 c :1700000000000 :1 consumers *1 %4 name c seen-time :17 active-time :-1 pending *1 *3 \
        1-1 :17 :1",
    "*12 name g consumers :1 pending :1 last-delivered-id 1-1 entries-read :1 lag _",
    "%4 name c pending :1 idle :5 inactive :-1",
    "*4 :2 1-1 2-1 *2 *2 c 1 *2 d 1",
    "*4 :0 _ _ _",
    "*4 1-1 c :5 :1",
    "*3 1-1 :5 :1",
    "*3 0-0 *1 *2 1-1 *2 a b *1 2-2",
    "*2 0-0 *1 1-1",
    "*4 m 1.5 :7 *2 1.5 2.5",
    "*4 m ,1.5 :7 *2 ,1.5 ,2.5",
    "*6 library_name l engine LUA functions *1 *6 name f description _ flags ~1 no-writes",
    "%2 running_script %3 name f command *2 FCALL f duration_ms :7 engines %1 LUA %2 libraries_count :1 \
        functions_count :2",
    "*4 int8 bytes ,1.5 ,2.5",
    "*6 quant-type int8 vector-dim :3 size :2",
    "*6 a 1 _ b 0.5 {}",
    "%2 a *2 ,1 _ b *2 ,0.5 {}",
    "*10 get :2 ~2 readonly fast :1 :1 :1 ~1 @read *0 *1 %3 flags ~1 RO begin_search %2 type index spec %1 index :1 \
        find_keys \
        %2 type range spec %3 lastkey :0 keystep :1 limit :0 *1 *10 a|b :2 *0 :0 :0 :0 *0 *0 *0 *0",
    "%2 type keyword spec %2 keyword STREAMS startfrom :1",
    "%2 type keynum spec %3 keynumidx :0 firstkey :1 keystep :1",
    "%6 summary s since 1.0 group string history *1 *2 1 2 arguments *1 %4 name key type key key_spec_index :0 \
        arguments *0 \
        subcommands %1 a|b %1 summary s",
    "*3 master :7 *1 *3 ::1 6379 7",
    "*5 slave ::1 :6379 connected :7",
    "*2 sentinel *1 a",
    "*6 command :17 :5 :9 :12 :2",
    "*2 :17 :5",
    "*4 calls :7 histogram_usec *4 :1 :2 :4 :3",
    "*6 :1 :17 :250 *2 GET k ::1:5 name",
    "%7 flags ~1 on passwords *0 commands +@all keys ~* channels &* selectors *1 %3 commands -@all keys *1 ~a \
        channels *0 new _",
    "*18 count :1 reason auth context toplevel object AUTH username u age-seconds 1.5 client-info \
        id=1^addr=::1:1^name= \
        entry-id :0 timestamp-created :1700000000000",
    "%4 name m ver :1 path p args *1 a",
    "%3 flags ~1 on redirect :-1 prefixes *0",
    "id=1^addr=::1:1^name=^age=5^flags=N^db=0|id=2^addr=/tmp/a^b:0^name=x|",
    "cluster_state:ok|cluster_known_nodes:1|",
    "id^::1:1@2,host,shard-id=x^myself,master^-^0^17^1^connected^0-5^7^[8->-x]|\
        id2^:0@0^slave,noaddr^id^0^0^1^disconnected|",
    "*4 :0 :5 *4 ::1 :7000 id *2 hostname h *3 _ :7001 id2",
    "*4 ::1 :7000 id %1 hostname h",
    "%4 direction to node id create-time :1700000000000 events rw",
    "%2 slots *2 :0 :5 nodes *1 %6 id x port :7000 ip ::1 endpoint _ role master health online",
    "%2 key-count :1 cpu-usec :5",
    "%4 name n operation EXPORT create_time :17 cow_size :0",
    "BUMPED^5",
    "STILL^5",
    "*2 0-{06S}-0 *1 k",
    "%3 peak.allocated :7 fragmentation ,1.5 db.0 %1 overhead.hashtable.main :7",
    "NOKEY",
    "+NOKEY",
    "#^Server|redis_version:8.2.3|#^Keyspace|db0:keys=1,expires=0,avg_ttl=0|#^Commandstats|cmdstat_get:calls=1,usec=2|",
];

fn bulk(token: &str, out: &mut Vec<u8>) {
    let text = token.replace('^', " ").replace('|', "\r\n");
    out.extend_from_slice(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
}

/// Writes the next element of a reply; one time in `one_in` something else in its place, or one element more or fewer.
fn reply<'a>(
    random: &mut Random,
    tokens: &mut impl Iterator<Item = &'a str>,
    out: &mut Vec<u8>,
    one_in: usize,
    names: &[&str],
) {
    let token = tokens.next().expect("a reply goes on");
    let (kind, rest) = token.split_at_checked(1).unwrap_or((token, ""));
    let mut inner = Vec::new();
    let per_element = if kind == "%" { 2 } else { 1 };
    match (kind, rest.parse::<usize>()) {
        ("*" | "%" | "~", Ok(count)) => {
            let (mut written, mut left) = (0, count * per_element);
            while left > 0 {
                let before = inner.len();
                reply(random, tokens, &mut inner, one_in, names);
                (written, left) = (written + 1, left - 1);
                if random.below(one_in * 4) == 0 {
                    // The last one is taken back, or followed by another.
                    if random.below(2) == 0 {
                        inner.truncate(before);
                        written -= 1;
                    } else {
                        scalar(random, &mut inner, names);
                        written += 1;
                    }
                }
            }
            if written % per_element != 0 {
                scalar(random, &mut inner, names);
                written += 1;
            }
            let count = written / per_element;
            inner.splice(0..0, format!("{kind}{count}\r\n").into_bytes());
        }
        (":", _) if rest.parse::<i64>().is_err() => bulk(token, &mut inner),
        ("#", _) if rest != "t" => bulk(token, &mut inner),
        (":" | "," | "#" | "+" | "_", _) => {
            inner.extend_from_slice(format!("{token}\r\n").as_bytes());
        }
        _ => bulk(token, &mut inner),
    }
    if random.below(one_in) == 0 { tree(random, out, 2, names) } else { out.append(&mut inner) }
}

/// How many frames: about two seconds without optimization.
const SEEDS: u64 = 1_300;

#[test]
fn no_frame_makes_a_typed_reply_panic() {
    let types = all_types!(types);
    let names: Vec<&str> = NAMES.split_whitespace().collect();
    let mut decoded = vec![0_u32; types.len()];
    let mut wire = Vec::new();
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        wire.clear();
        // The replies as they are, then replies with more and more damage, and every second time anything.
        let whole = REPLIES.get(seed as usize);
        match whole.copied().or_else(|| (seed % 2 == 0).then(|| random.of(REPLIES))) {
            Some(template) => {
                let one_in = if whole.is_some() { usize::MAX / 4 } else { 2 + random.below(40) };
                let mut tokens = template.split_whitespace();
                reply(&mut random, &mut tokens, &mut wire, one_in, &names);
                assert_eq!(tokens.next(), None, "{template}");
            }
            None => {
                let depth = random.below(5);
                tree(&mut random, &mut wire, depth, &names);
            }
        }
        let shown = || String::from_utf8_lossy(&wire).into_owned();
        let (frame, length) = Decoder::new().decode(&wire).expect("it is well formed").expect("it is whole");
        assert_eq!(length, wire.len(), "{:?}", shown());
        for ((name, decode), count) in types.iter().zip(&mut decoded) {
            match catch_unwind(AssertUnwindSafe(|| decode(frame))) {
                Ok(result) => *count += u32::from(result.is_ok()),
                Err(_) => panic!("seed {seed}: {name} panics on {:?}", shown()),
            }
        }
        let asked = catch_unwind(AssertUnwindSafe(|| asked(frame)));
        assert!(asked.is_ok(), "seed {seed}: a method panics on {:?}", shown());
    }
    // Else the replies above have nothing for it, and it was only ever refused at its beginning.
    for ((name, _), count) in types.iter().zip(decoded) {
        assert_ne!(count, 0, "{name} was never decoded");
    }
}

#[test]
fn fields_that_are_not_known_survive() {
    let types = types![
        MemoryStats,
        StreamInfo<Fields>,
        StreamInfoFull<Fields>,
        GroupInfo,
        GroupInfoFull,
        ConsumerInfo,
        ConsumerInfoFull,
        FunctionLibrary,
        FunctionInfo,
        FunctionStats,
        RunningFunction,
        FunctionEngine,
        VectorSetInfo,
        KeySpec,
        CommandDocs,
        ArgumentDocs,
        LatencyHistogram,
        AclUser,
        AclSelector,
        AclLogEntry,
        ModuleInfo,
        TrackingInfo,
        ClusterLink,
        ClusterShard,
        ShardNode,
        SlotStats,
        SlotMigrationStatus,
    ];
    const VALUES: &[&str] = &[
        ":1",
        "_",
        "$-1",
        "#t",
        ",1.5",
        "$2\r\n\u{e9}",
        "*2\r\n:1\r\n_",
        "%1\r\n_\r\n~0",
        "-ERR x",
        "(18446744073709551616",
    ];
    for value in VALUES {
        for head in ["%1", "*2"] {
            let wire = format!("{head}\r\n$6\r\nzz-new\r\n{value}\r\n");
            let (frame, _) = Decoder::new().decode(wire.as_bytes()).expect("it is well formed").expect("it is whole");
            for (name, decode) in types {
                if let Err(error) = decode(frame) {
                    panic!("{name} of {wire:?}: {error}");
                }
            }
            let kept = |shown: String| assert!(shown.contains("zz-new"), "{shown} of {wire:?}");
            kept(format!("{:?}", AclUser::from_reply(frame)));
            kept(format!("{:?}", GroupInfo::from_reply(frame)));
            kept(format!("{:?}", FunctionStats::from_reply(frame)));
            kept(format!("{:?}", VectorSetInfo::from_reply(frame)));
        }
    }
}
