//! Private servers: what `redefer::testing` promises, with a client of a few lines, so that the crate's own is not in
//! the way. The tests on the process itself read `/proc`, and so run on Linux only.

#![cfg(all(unix, feature = "testing"))]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use redefer::testing::Server;

fn ask(mut stream: impl Read + Write, command: &str) -> io::Result<String> {
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn tcp(server: &Server) -> io::Result<TcpStream> {
    TcpStream::connect(("127.0.0.1", server.port()))
}

#[test]
fn a_server_answers_on_its_port_and_on_its_socket() -> io::Result<()> {
    let server = Server::start()?;
    assert_eq!(ask(tcp(&server)?, "PING")?, "+PONG");
    assert_eq!(ask(UnixStream::connect(server.socket())?, "PING")?, "+PONG");
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
    assert_eq!(server.unix_url(), format!("redis+unix://{}", server.socket().display()));
    assert!(["redis", "valkey"].contains(&server.name()), "{}", server.name());
    assert!(server.version() >= (2, 0, 0), "{:?}", server.version());
    assert!(server.log().contains("eady to accept connections"), "{}", server.log());
    Ok(())
}

#[test]
fn each_server_is_empty_and_apart_from_the_others() -> io::Result<()> {
    let servers = (0..8).map(|_| Server::start()).collect::<io::Result<Vec<_>>>()?;
    for (number, server) in servers.iter().enumerate() {
        assert_eq!(ask(tcp(server)?, "DBSIZE")?, ":0");
        assert_eq!(ask(tcp(server)?, &format!("SET number {number}"))?, "+OK");
    }
    for server in &servers {
        assert_eq!(ask(tcp(server)?, "DBSIZE")?, ":1");
    }
    Ok(())
}

#[test]
fn a_dropped_server_is_gone_and_so_is_its_directory() -> io::Result<()> {
    let server = Server::start()?;
    let (port, dir) = (server.port(), server.dir().to_owned());
    assert!(dir.exists());
    drop(server);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(!dir.exists());
    Ok(())
}

#[test]
fn a_killed_server_closes_its_connections_and_its_port() -> io::Result<()> {
    let server = Server::start()?;
    let mut stream = tcp(&server)?;
    server.kill();
    server.kill();
    assert!(!matches!(stream.read(&mut [0]), Ok(1..)));
    assert!(tcp(&server).is_err());
    Ok(())
}

#[test]
fn a_restarted_server_has_its_port_its_settings_and_what_it_saved() -> io::Result<()> {
    let server = Server::builder().config("appendonly", "yes").config("maxclients", 77).start()?;
    let (port, pid) = (server.port(), server.pid());
    assert_eq!(ask(tcp(&server)?, "SET key kept")?, "+OK");
    for running in [false, true] {
        if !running {
            server.kill();
        }
        server.restart()?;
        assert_eq!(server.port(), port);
        assert_ne!(server.pid(), pid);
        assert_eq!(ask(tcp(&server)?, "APPEND key !")?, if running { ":6" } else { ":5" });
        assert_eq!(ask(UnixStream::connect(server.socket())?, "PING")?, "+PONG");
        assert!(server.log().contains("eady to accept connections"), "{}", server.log());
    }
    let config = std::fs::read_to_string(server.dir().join("redis.conf"))?;
    assert!(config.contains("maxclients 77"), "{config}");
    let dir = server.dir().to_owned();
    drop(server);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(!dir.exists());
    Ok(())
}

#[test]
fn a_paused_server_answers_when_it_is_resumed() -> io::Result<()> {
    let server = Server::start()?;
    let mut stream = tcp(&server)?;
    for _ in 0..20 {
        server.pause()?;
        server.pause()?;
        stream.write_all(b"PING\r\n")?;
        stream.set_nonblocking(true)?;
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        stream.set_nonblocking(false)?;
        server.resume()?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer)?;
        assert_eq!(&answer, b"+PONG\r\n");
    }
    // One that stands still can be ended as well.
    server.pause()?;
    server.kill();
    assert_eq!(server.pause().unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(server.resume().unwrap_err().kind(), io::ErrorKind::NotFound);
    server.restart()?;
    assert_eq!(ask(tcp(&server)?, "PING")?, "+PONG");
    Ok(())
}

#[test]
fn settings_are_lines_of_the_configuration_file() -> io::Result<()> {
    // An empty value reaches the server as an empty word, and this server says what it thinks of it.
    let error = Server::builder().config("timeout", "").start().unwrap_err();
    assert!(error.to_string().contains("timeout"), "{error}");

    let server = Server::builder().config("maxclients", 1).config("requirepass", "secret").start()?;
    let first = tcp(&server)?;
    assert!(ask(&first, "PING")?.starts_with("-NOAUTH"));
    assert_eq!(ask(&first, "AUTH secret")?, "+OK");
    // Said unasked, before the end of the stream.
    let mut text = String::new();
    tcp(&server)?.read_to_string(&mut text)?;
    assert_eq!(text, "-ERR max number of clients reached\r\n");

    let server = Server::builder().config("rename-command", "ECHO \"\"").start()?;
    assert!(ask(tcp(&server)?, "ECHO x")?.starts_with("-ERR unknown command"));
    let server = Server::builder().config("user", "alice on >secret ~* +@all").start()?;
    assert_eq!(ask(tcp(&server)?, "AUTH alice secret")?, "+OK");
    Ok(())
}

#[test]
fn a_server_that_ends_at_its_start_shows_its_log() {
    let error = Server::builder().config("no-such-setting", "1").start().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("ended before it accepted connections") && text.contains("no-such-setting"), "{text}");
}

#[test]
fn a_cluster_node_finds_two_free_ports() -> io::Result<()> {
    let server = Server::builder().config("cluster-enabled", "yes").start()?;
    assert!(ask(tcp(&server)?, "CLUSTER MYID")?.starts_with("$40"));
    Ok(())
}

#[test]
fn debug_is_allowed() -> io::Result<()> {
    let server = Server::start()?;
    assert_eq!(ask(tcp(&server)?, "DEBUG SLEEP 0")?, "+OK");
    Ok(())
}

#[test]
fn every_program_found_can_be_started() -> io::Result<()> {
    let programs = Server::programs();
    assert!(!programs.is_empty());
    for program in programs {
        let server = Server::builder().program(&program).start()?;
        println!("{} {:?}: {}", server.name(), server.version(), program.display());
        assert_eq!(server.program(), program);
        assert_eq!(ask(tcp(&server)?, "PING")?, "+PONG");
    }
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
fn memory_is_that_of_the_servers_process() -> io::Result<()> {
    let server = Server::start()?;
    let before = server.memory()?;
    assert!(before.resident > 1 << 20 && before.peak >= before.resident, "{before:?}");
    assert_eq!(ask(tcp(&server)?, "SETRANGE big 33554432 x")?, ":33554433");
    assert!(server.memory()?.peak >= before.resident + (1 << 25), "{before:?} {:?}", server.memory()?);
    server.kill();
    assert_eq!(server.memory().unwrap_err().kind(), io::ErrorKind::NotFound);
    Ok(())
}

#[cfg(target_os = "linux")]
mod left_behind {
    use super::*;

    const CHILD: &str = "REDEFER_TEST_LEAVE_SERVER_BEHIND";

    /// Run by the tests below in a process of its own; by itself it does nothing.
    #[test]
    fn child() -> io::Result<()> {
        let Some(how) = std::env::var_os(CHILD) else { return Ok(()) };
        let server = Server::start()?;
        println!("\nserver {} {}", server.pid(), server.dir().display());
        io::stdout().flush()?;
        std::mem::forget(server);
        match how.to_str() {
            Some("exit") => std::process::exit(0),
            Some("abort") => std::process::abort(),
            _ => {
                // Killed by the parent, which holds the other end of this process's input.
                io::stdin().read_to_end(&mut Vec::new())?;
                Ok(())
            }
        }
    }

    fn check(how: &str) -> io::Result<()> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", "left_behind::child", "--nocapture"])
            .env(CHILD, how)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
        let line = stdout.map_while(Result::ok).find(|line| line.starts_with("server ")).unwrap_or_default();
        let [_, pid, dir] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("no server: {line:?}") };
        if how == "kill" {
            child.kill()?;
        }
        child.wait()?;

        let process = std::path::Path::new("/proc").join(pid);
        // A process that init has not yet collected is still listed.
        let gone = || std::fs::read_to_string(process.join("cmdline")).unwrap_or_default().is_empty();
        let deadline = Instant::now() + Duration::from_secs(20);
        while !gone() || std::path::Path::new(dir).exists() {
            assert!(Instant::now() < deadline, "{how}: server {pid} or {dir} is still there");
            std::thread::yield_now();
        }
        Ok(())
    }

    #[test]
    fn a_server_ends_when_its_process_exits_without_dropping_it() -> io::Result<()> {
        check("exit")
    }

    #[test]
    fn a_server_ends_when_its_process_aborts() -> io::Result<()> {
        check("abort")
    }

    #[test]
    fn a_server_ends_when_its_process_is_killed() -> io::Result<()> {
        check("kill")
    }
}
