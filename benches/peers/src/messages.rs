//! Messages of one channel by one subscriber, each client in a process of its own: how many in a second, and what they cost.
//!
//! Live: another connection publishes at full speed while the subscriber reads, and the server is what limits all of
//! them. Backlog: a script has published everything before the first is read, so that the reader is the limit.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::process::{Command, Stdio};

use redefer::prelude::*;
use redefer::pubsub::{Event, EventRef, Subscriber};
use redefer::testing::Server;

use crate::measure::{Seconds, children_cpu, median, time};
use crate::{KEY as CHANNEL, Outcome, VALUE as PAYLOAD, clients, hiredis};

/// Takes so many messages.
type Take<'s> = &'s mut dyn FnMut(usize) -> Outcome;

/// Name, and what the child is asked for.
const CLIENTS: [(&str, &str); 6] = [
    ("raw, bytes only counted", "raw"),
    ("hiredis", "hiredis"),
    (REDIS, "redis"),
    ("redis-cli SUBSCRIBE, into a pipe", "redis-cli"),
    ("redefer, next, payload as String", "next"),
    ("redefer, for_each, borrowed", "for_each"),
];
const REDIS: &str = "redis, get_message, as String";

const PUBLISH: &str = "for _ = 1, ARGV[1] do redis.call('PUBLISH', KEYS[1], ARGV[2]) end";

pub fn run(rounds: usize, messages: usize) -> Outcome {
    // Else it disconnects a subscriber that has not read so much.
    let server = Server::builder().config("client-output-buffer-limit", "pubsub 0 0 0").start()?;
    let conn = Connection::open(server.url())?;
    let has_cli = Command::new("redis-cli").arg("--version").output().is_ok();
    let clients: Vec<_> = CLIENTS.into_iter().filter(|(_, task)| *task != "redis-cli" || has_cli).collect();
    let mut rows = vec![[Vec::new(), Vec::new()]; clients.len()];
    for _ in 0..rounds {
        for ((_, task), row) in clients.iter().zip(&mut rows) {
            for (way, column) in ["live", "backlog"].into_iter().zip(row) {
                column.push(measured(task, way, messages, &server, &conn)?);
            }
        }
    }
    let millions = messages as f64 / 1e6;
    println!("\n{messages} messages of {} bytes, one subscriber", PAYLOAD.len());
    println!("  {:<34}{}", "", format!(" {:>10} {:>9} {:>10}", "million/s", "of redis", "CPU s/mill").repeat(2));
    println!("  {:<34} {:>31} {:>31}", "", "live", "backlog");
    let redis = clients.iter().position(|(name, _)| *name == REDIS).unwrap_or(0);
    for ((name, _), row) in clients.iter().zip(&rows) {
        print!("  {name:<34}");
        for (way, column) in row.iter().enumerate() {
            let rate = millions / median(column.iter().map(|seconds| seconds.wall));
            let of_redis = median(rows[redis][way].iter().zip(column).map(|(redis, own)| redis.wall / own.wall));
            let cpu = median(column.iter().map(|seconds| seconds.cpu)) / millions;
            print!(" {rate:>10.3} {of_redis:>9.2} {cpu:>10.3}");
        }
        println!();
    }
    Ok(())
}

/// One child, from its subscription to its last message.
fn measured(task: &str, way: &str, messages: usize, server: &Server, conn: &Connection) -> Outcome<Seconds> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--child", &format!("messages:{task} {way} {messages}"), &server.url()]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut input, mut output) = (child.stdin.take().ok_or("no input")?, child.stdout.take().map(BufReader::new));
    let output = output.as_mut().ok_or("no output")?;
    let mut line = String::new();
    output.read_line(&mut line)?;
    // It is subscribed. One more than is measured: the first begins it.
    if way == "backlog" {
        conn.eval::<Option<()>>(PUBLISH, CHANNEL, (messages + 1, PAYLOAD)).wait()?;
        input.write_all(b"\n")?;
    } else {
        input.write_all(b"\n")?;
        for _ in 0..=messages {
            conn.publish(black_box(CHANNEL), black_box(PAYLOAD)).detach();
        }
        conn.sync()?;
    }
    line.clear();
    output.read_line(&mut line)?;
    if !child.wait()?.success() {
        return Err(format!("{task}: no measurement").into());
    }
    let mut numbers = line.split_ascii_whitespace().map(str::parse::<f64>);
    let mut number = || numbers.next().ok_or("no number");
    Ok(Seconds { wall: number()??, cpu: number()?? })
}

/// Subscribes, says so, waits for the word to begin, and prints seconds and CPU seconds.
pub fn child(task: &str, url: &str) -> Outcome {
    let mut words = task.split(' ');
    let mut word = || words.next().ok_or("messages: client way count");
    let (client, _, messages) = (word()?, word()?, word()?.parse()?);
    let subscribe = clients::encoded(&["SUBSCRIBE", CHANNEL]);
    match client {
        "raw" => {
            let mut socket = TcpStream::connect(url.trim_start_matches("redis://"))?;
            socket.write_all(&subscribe)?;
            let one = clients::encoded(&["message", CHANNEL, PAYLOAD]).len();
            // An array of three, as the message.
            let acknowledgement = clients::encoded(&["subscribe", CHANNEL]).len() + ":1\r\n".len();
            let (mut buf, mut ahead) = (vec![0; 64 * 1024], 0);
            socket.read_exact(&mut buf[..acknowledgement])?;
            report(messages, &mut |count| {
                let mut due = (count * one).saturating_sub(ahead);
                ahead = ahead.saturating_sub(count * one);
                while due > 0 {
                    let n = socket.read(&mut buf)?;
                    if n == 0 {
                        return Err("the server has closed the connection".into());
                    }
                    ahead += n.saturating_sub(due);
                    due = due.saturating_sub(n);
                }
                Ok(())
            })
        }
        "hiredis" => {
            let mut context = hiredis::Context::connect(url)?;
            context.append(["SUBSCRIBE", CHANNEL])?;
            context.reply()?;
            report(messages, &mut |count| (0..count).try_for_each(|_| context.reply()))
        }
        "redis" => {
            let mut conn = clients::redis_connection(url)?;
            let mut pubsub = conn.as_pubsub();
            pubsub.subscribe(CHANNEL)?;
            report(messages, &mut |count| {
                for _ in 0..count {
                    black_box(pubsub.get_message()?.get_payload::<String>()?);
                }
                Ok(())
            })
        }
        "redis-cli" => cli(messages, url),
        _ => {
            let subscriber = Subscriber::open(url)?;
            subscriber.subscribe(CHANNEL).wait()?;
            report(messages, &mut |count| {
                if client == "next" { owned(&subscriber, count) } else { lent(&subscriber, count) }
            })
        }
    }
}

fn owned(subscriber: &Subscriber, count: usize) -> Outcome {
    for _ in 0..count {
        match subscriber.next()? {
            Some(Event::Message(message)) => drop(black_box(message.payload_as::<String>()?)),
            _ => return Err("no message".into()),
        }
    }
    Ok(())
}

fn lent(subscriber: &Subscriber, count: usize) -> Outcome {
    let mut left = count;
    subscriber.for_each(|event| {
        if let EventRef::Message(message) = event {
            black_box(message.payload());
            left -= 1;
        }
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(())
}

fn report(messages: usize, take: Take<'_>) -> Outcome {
    println!("subscribed");
    std::io::stdin().read_line(&mut String::new())?;
    take(1)?;
    let seconds = time(|| take(messages))?;
    println!("{} {}", seconds.wall, seconds.cpu);
    Ok(())
}

/// Its CPU time is that of the process, its start included.
fn cli(messages: usize, url: &str) -> Outcome {
    let mut command = Command::new("redis-cli");
    command.args(["-u", url, "--raw", "SUBSCRIBE", CHANNEL]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut output = child.stdout.take().ok_or("no output")?;
    let one = format!("message\n{CHANNEL}\n{PAYLOAD}\n").len();
    let mut buf = vec![0; 64 * 1024];
    let acknowledgement = format!("subscribe\n{CHANNEL}\n1\n").len();
    output.read_exact(&mut buf[..acknowledgement])?;
    println!("subscribed");
    std::io::stdin().read_line(&mut String::new())?;
    output.read_exact(&mut buf[..one])?;
    let seconds = time(|| {
        let mut due = messages * one;
        while due > 0 {
            match output.read(&mut buf)? {
                0 => return Err("redis-cli has ended".into()),
                n => due -= n.min(due),
            }
        }
        Ok(())
    })?;
    child.kill()?;
    child.wait()?;
    println!("{} {}", seconds.wall, children_cpu());
    Ok(())
}
