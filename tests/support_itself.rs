//! The scripted peer and the limits of `tests/support`, tried with plain sockets: a test that relies on them should not
//! be the first to find them wanting.

#![cfg(unix)]

mod support;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use support::scripted::{HELLO_REPLY, Scripted, array, bulk, gate};

fn connect(server: &Scripted) -> io::Result<TcpStream> {
    TcpStream::connect(("127.0.0.1", server.port()))
}

fn read(stream: &mut impl Read, count: usize) -> io::Result<String> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of the panic that must come.
fn failure(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("no failure");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_script_answers_commands() -> io::Result<()> {
    let server = Scripted::start(|peer| {
        peer.expect(["GET", "k"])?;
        peer.send(bulk("value"))?;
        assert_eq!(peer.read_commands(2)?, [vec![b"PING".to_vec()], vec![b"SET".to_vec(), vec![], vec![0xff, b'\n']]]);
        peer.expect_bytes("inline\r\n")?;
        peer.expect_end()
    });
    let mut stream = connect(&server)?;
    for byte in array(["GET", "k"]) {
        stream.write_all(&[byte])?;
    }
    assert_eq!(read(&mut stream, 11)?, "$5\r\nvalue\r\n");
    let commands = [array(["PING"]), array([&b"SET"[..], b"", b"\xff\n"]), b"inline\r\n".to_vec()];
    stream.write_all(&commands.concat())?;
    drop(stream);
    server.finish();
    Ok(())
}

#[test]
fn both_handshakes_are_answered() -> io::Result<()> {
    let hello = [
        array(["HELLO", "3", "AUTH", "u", "p"]),
        array(["SELECT", "1"]),
        array(["CLIENT", "SETINFO", "LIB-NAME", "x"]),
        array(["CLIENT", "SETINFO", "LIB-VER", "1"]),
    ]
    .concat();
    let server = Scripted::unix(|peer| {
        match peer.number() {
            0 => {
                assert_eq!(peer.handshake()?.len(), 4);
                peer.expect(["PING"])?;
            }
            1 => {
                assert_eq!(peer.handshake_resp2()?.len(), 5);
                peer.expect(["PING"])?;
            }
            _ => assert_eq!(peer.handshake_resp2()?.len(), 0),
        }
        peer.expect_end()
    });
    let connect = || UnixStream::connect(server.socket());

    let mut stream = connect()?;
    stream.write_all(&hello)?;
    let wanted = format!("{HELLO_REPLY}+OK\r\n+OK\r\n+OK\r\n");
    assert_eq!(read(&mut stream, wanted.len())?, wanted);
    stream.write_all(&array(["PING"]))?;
    drop(stream);

    let mut stream = connect()?;
    stream.write_all(&hello)?;
    let error = "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' 'p' \r\n+OK\r\n";
    assert_eq!(read(&mut stream, error.len())?, error);
    let refused = "-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.\r\n".repeat(2);
    assert_eq!(read(&mut stream, refused.len())?, refused);
    stream.write_all(&array(["AUTH", "u", "p"]))?;
    assert_eq!(read(&mut stream, 5)?, "+OK\r\n");
    stream.write_all(&array(["PING"]))?;
    drop(stream);

    drop(connect()?);
    server.finish();
    Ok(())
}

#[test]
fn a_gate_keeps_the_second_part_back() -> io::Result<()> {
    let (opener, opened) = gate();
    let server = Scripted::start(move |peer| {
        peer.send_split_at_gate("first second", 6, &opened)?;
        peer.send_bytewise("abc")?;
        peer.send_split("defg", 2)?;
        peer.shutdown_write()?;
        peer.expect(["STILL", "HEARD"])
    });
    let mut stream = connect(&server)?;
    assert_eq!(read(&mut stream, 6)?, "first ");
    stream.set_nonblocking(true)?;
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    stream.set_nonblocking(false)?;
    opener.open();
    let mut rest = String::new();
    stream.read_to_string(&mut rest)?;
    assert_eq!(rest, "secondabcdefg");
    stream.write_all(&array(["STILL", "HEARD"]))
}

#[test]
fn a_reset_is_a_reset_and_a_close_is_an_end() -> io::Result<()> {
    let (opener, connected) = gate();
    let server = Scripted::start(move |peer| {
        if peer.number() == 0 {
            // A reset that is too early fails the connect instead.
            connected.wait();
            return peer.reset();
        }
        peer.close();
        assert!(peer.send("x").is_err());
        Ok(())
    });
    let mut stream = connect(&server)?;
    opener.open();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(connect(&server)?.read(&mut [0])?, 0);
    assert_eq!(server.accepted(), 2);
    Ok(())
}

#[test]
fn small_buffers_hold_little() -> io::Result<()> {
    for builder in [Scripted::builder(), Scripted::builder().unix()] {
        let (opener, opened) = gate();
        let server = builder.buffers(4096).start(move |peer| {
            opened.wait();
            assert!(peer.read_to_end()?.len() < 1 << 19);
            Ok(())
        });
        let stream = if server.url().starts_with("redis://") {
            socket2::Socket::from(connect(&server)?)
        } else {
            socket2::Socket::from(UnixStream::connect(server.socket())?)
        };
        stream.set_send_buffer_size(4096)?;
        stream.set_nonblocking(true)?;
        while (&stream).write(&[0; 4096]).is_ok() {}
        stream.shutdown(Shutdown::Write)?;
        opener.open();
        server.finish();
    }
    Ok(())
}

#[test]
fn a_script_that_fails_or_panics_fails_the_test() -> io::Result<()> {
    let server = Scripted::start(|peer| peer.expect(["GET", "k"]));
    connect(&server)?.write_all(&array(["GET", "other"]))?;
    let text = failure(|| drop(server));
    assert!(text.contains(r#"["GET" "k"] expected, ["GET" "other"] received"#), "{text}");

    let server = Scripted::start(|_| panic!("an assertion of the script"));
    connect(&server)?;
    let text = failure(|| server.finish());
    assert!(text.contains("an assertion of the script"), "{text}");

    let server = Scripted::start(|peer| peer.read_command().map(drop));
    connect(&server)?.write_all(b"*1\r\n$x\r\n")?;
    let text = failure(|| drop(server));
    assert!(text.contains(r#""$x" where '$'"#), "{text}");
    Ok(())
}

#[test]
fn a_script_that_hangs_fails_the_test_within_the_limit() -> io::Result<()> {
    let limit = Duration::from_millis(50);
    // The client stays and is silent: the script's read ends it.
    let server = Scripted::builder().limit(limit).start(|peer| peer.read_command().map(drop));
    let mut stream = connect(&server)?;
    stream.write_all(b"*1\r\n")?;
    let text = failure(|| drop(server));
    assert!(text.contains("the client sends nothing more") || text.contains("cut off"), "{text}");

    // The script waits for something else than the client.
    let (_opener, opened) = gate();
    let server = Scripted::builder().limit(limit).start(move |_| {
        opened.wait();
        Ok(())
    });
    let _stream = connect(&server)?;
    let text = failure(|| drop(server));
    assert!(text.contains("still runs"), "{text}");
    Ok(())
}

#[test]
fn a_failing_test_keeps_its_own_message_and_does_not_wait() {
    let text = failure(|| {
        let server = Scripted::start(|peer| peer.read_command().map(drop));
        let _stream = connect(&server);
        panic!("{}", "the test's own");
    });
    assert_eq!(text, "the test's own");
}

#[test]
fn what_takes_too_long_fails_the_test() {
    assert_eq!(support::within(Duration::from_secs(10), || 1), 1);
    let text = failure(|| support::within(Duration::from_secs(10), || panic!("{}", "from inside")));
    assert_eq!(text, "from inside");
    let (_opener, opened) = gate();
    let text = failure(|| support::within(Duration::from_millis(10), move || opened.wait()));
    assert!(text.contains("still not done"), "{text}");
}
