//! The proxy of `tests/support`, tried with plain sockets between it and a scripted server: each fault does what it says,
//! at the byte where it was put.

#![cfg(unix)]

mod support;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use support::proxy::{Act, Builder, Fault, Mix, Proxy, Struck, Way, random_faults};
use support::scripted::{Scripted, gate};

/// Sends everything back, until the end.
fn echo() -> Scripted {
    Scripted::start(|peer| {
        let bytes = peer.read_to_end()?;
        peer.send(bytes)
    })
}

fn connect(proxy: &Proxy) -> io::Result<socket2::Socket> {
    Ok(match proxy.url().strip_prefix("redis+unix://") {
        Some(path) => UnixStream::connect(path)?.into(),
        None => TcpStream::connect(("127.0.0.1", proxy.port()))?.into(),
    })
}

/// Everything up to the end, and whether that was a reset.
fn read_all(mut stream: &socket2::Socket) -> io::Result<(Vec<u8>, bool)> {
    let (mut all, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return Ok((all, false)),
            Ok(n) => all.extend_from_slice(&chunk[..n]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok((all, true)),
            Err(error) => return Err(error),
        }
    }
}

fn builders() -> [Builder; 4] {
    [Proxy::builder(), Proxy::builder().unix(), Proxy::builder().buffers(4096), Proxy::builder().unix().buffers(4096)]
}

#[test]
fn bytes_and_ends_pass_through_whatever_holds_them_up() -> io::Result<()> {
    let faults = |_| {
        let mut faults = Vec::new();
        for at in [0, 1, 100, 5_000, 5_001, 300_000] {
            for way in [Way::ToServer, Way::ToClient] {
                faults.push(Fault::new(way, at, Act::Delay(Duration::from_micros(300))));
                faults.push(Fault::new(way, at + 10, Act::Split));
            }
        }
        faults
    };
    let bytes: Vec<u8> = (0..400_000u32).map(|at| (at % 251) as u8).collect();
    for builder in builders() {
        let server = echo();
        let proxy = builder.start(server.port(), faults);
        let stream = connect(&proxy)?;
        (&stream).write_all(&bytes)?;
        stream.shutdown(Shutdown::Write)?;
        assert!(read_all(&stream)? == (bytes.clone(), false));
        assert_eq!(proxy.struck(), Struck { delays: 12, splits: 12, ..Struck::default() });
        assert_eq!(proxy.accepted(), 1);
        server.finish();
    }
    Ok(())
}

#[test]
fn a_close_ends_both_sides_in_order_at_its_byte() -> io::Result<()> {
    for way in [Way::ToServer, Way::ToClient] {
        for builder in builders() {
            let (sender, received) = mpsc::channel();
            let server = Scripted::start(move |peer| {
                peer.expect_bytes("12345")?;
                peer.send("abcdefghij")?;
                let _ = sender.send(peer.read_to_end()?);
                Ok(())
            });
            let at = if way == Way::ToServer { 8 } else { 7 };
            let proxy = builder.start(server.port(), move |_| vec![Fault::new(way, at, Act::Close)]);
            let stream = connect(&proxy)?;
            (&stream).write_all(b"12345")?;
            if way == Way::ToServer {
                let mut answer = [0; 10];
                (&stream).read_exact(&mut answer)?;
                (&stream).write_all(b"6789")?;
                assert_eq!(received.recv(), Ok(b"678".to_vec()));
                assert_eq!(read_all(&stream)?, (vec![], false));
            } else {
                assert_eq!(read_all(&stream)?, (b"abcdefg".to_vec(), false));
                assert_eq!(received.recv(), Ok(vec![]));
            }
            // Nobody listens, and nobody minds.
            (&stream).write_all(b"more")?;
            server.finish();
        }
    }
    Ok(())
}

#[test]
fn a_reset_is_one_on_both_sides() -> io::Result<()> {
    let server = Scripted::start(|peer| {
        peer.expect_bytes("1234")?;
        assert_eq!(peer.expect_bytes("5").unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        Ok(())
    });
    let proxy = Proxy::start(server.port(), |_| vec![Fault::new(Way::ToServer, 4, Act::Reset)]);
    let stream = connect(&proxy)?;
    (&stream).write_all(b"12345678")?;
    assert_eq!(read_all(&stream)?, (vec![], true));
    server.finish();
    Ok(())
}

#[test]
fn a_reset_of_one_side_is_handed_on() -> io::Result<()> {
    let server = Scripted::start(|peer| {
        peer.expect_bytes("go")?;
        peer.reset()
    });
    let proxy = Proxy::start(server.port(), |_| Vec::new());
    let stream = connect(&proxy)?;
    (&stream).write_all(b"go")?;
    assert_eq!(read_all(&stream)?, (vec![], true));
    server.finish();
    Ok(())
}

#[test]
fn a_stall_lasts_until_it_is_released_and_holds_one_direction() -> io::Result<()> {
    let (opener, opened) = gate();
    let server = Scripted::start(move |peer| {
        peer.send("first second")?;
        peer.expect_bytes("heard")?;
        opener.open();
        peer.expect_end()
    });
    let proxy = Proxy::start(server.port(), |_| vec![Fault::new(Way::ToClient, 6, Act::Stall)]);
    let stream = connect(&proxy)?;
    let mut first = [0; 6];
    (&stream).read_exact(&mut first)?;
    assert_eq!(&first, b"first ");
    (&stream).write_all(b"heard")?;
    opened.wait();
    stream.set_nonblocking(true)?;
    assert_eq!((&stream).read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    stream.set_nonblocking(false)?;
    assert_eq!(proxy.struck().stalls, 1);
    proxy.release();
    stream.shutdown(Shutdown::Write)?;
    assert_eq!(read_all(&stream)?, (b"second".to_vec(), false));
    server.finish();
    Ok(())
}

#[test]
fn what_the_test_orders_is_done_to_every_connection() -> io::Result<()> {
    for reset in [false, true] {
        let server = Scripted::start(|peer| peer.read_to_end().map(drop));
        let proxy = Proxy::start(server.port(), |_| vec![Fault::new(Way::ToServer, 0, Act::Stall)]);
        let streams = [connect(&proxy)?, connect(&proxy)?];
        while proxy.struck().stalls < 2 {
            thread::yield_now();
        }
        if reset {
            proxy.reset_all()
        } else {
            proxy.close_all()
        }
        for stream in streams {
            assert_eq!(read_all(&stream)?, (vec![], reset));
        }
        server.finish();
    }
    Ok(())
}

#[test]
fn a_server_that_is_not_there_is_a_connection_that_ends() -> io::Result<()> {
    let server = echo();
    let port = server.port();
    server.finish();
    let proxy = Proxy::start(port, |_| Vec::new());
    assert!(read_all(&connect(&proxy)?)?.0.is_empty());
    Ok(())
}

#[test]
fn a_proxy_that_is_dropped_ends_with_every_connection() -> io::Result<()> {
    let server = Scripted::start(|peer| peer.read_to_end().map(drop));
    for builder in builders() {
        let proxy = builder.start(server.port(), |number| vec![Fault::new(Way::ToServer, number as u64, Act::Stall)]);
        let streams = [connect(&proxy)?, connect(&proxy)?, connect(&proxy)?];
        for mut stream in &streams {
            stream.write_all(b"some bytes")?;
        }
        drop(proxy);
        for stream in &streams {
            assert!(read_all(stream)?.0.is_empty());
        }
    }
    server.finish();
    Ok(())
}

#[test]
fn random_faults_are_the_same_for_the_same_seed() {
    let mix = Mix { delays: true, stalls: true, ends: true, within: 1000 };
    let of = |seed: u64| -> Vec<Vec<Fault>> { (0..100).map(|number| random_faults(seed, number, mix)).collect() };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    let all: Vec<Fault> = of(1).concat();
    assert!(all.iter().all(|fault| fault.at <= 1000));
    let count = |kind: fn(Act) -> bool| all.iter().filter(|fault| kind(fault.act)).count();
    assert!(count(|act| matches!(act, Act::Delay(_))) > 10 && count(|act| act == Act::Split) > 10);
    assert!(count(|act| act == Act::Stall) > 10);
    assert!(count(|act| act == Act::Close) > 10 && count(|act| act == Act::Reset) > 10);
    let quiet = Mix { delays: false, stalls: false, ends: false, within: 1000 };
    assert!((0..100).flat_map(|number| random_faults(1, number, quiet)).all(|fault| fault.act == Act::Split));
}
