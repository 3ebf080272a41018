//! A server that fails in the ways that a test asks for.
//!
//! It speaks as much of Redis's protocol as a limiter needs. It counts tokens and refills none. The real script runs in `redis-tests`.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use std::{io, thread};

/// How scripts are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As the real script would.
    Answer,
    /// Nothing is answered, whatever is sent.
    Silent,
    /// With bytes that are no reply.
    Garbage,
    /// With a reply that means nothing.
    Nonsense,
    /// With half of a reply, and then the connection closes.
    Half,
    /// With an error.
    Error,
    /// The connection closes.
    Close,
}

/// A script that was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub command: String,
    pub keys: Vec<String>,
    pub args: Vec<u64>,
}

impl Call {
    /// 0: take, 1: lease, 2: reset, 3: take by plan.
    pub fn operation(&self) -> u64 {
        self.args[0]
    }

    pub fn not_after(&self) -> u64 {
        self.args[1]
    }

    pub fn charge(&self) -> u64 {
        self.args[12]
    }

    /// Whether it takes and books nothing, as the look that `build` sends.
    pub fn is_look(&self) -> bool {
        let settles_nothing = self.operation() != 3 || self.unsettled()[3..].iter().all(|parts| *parts == 0);
        [0, 3].contains(&self.operation()) && self.args[11..14] == [0, 0, 0] && settles_nothing
    }

    /// The refund of the first limit.
    pub fn refund(&self) -> u64 {
        self.args[13]
    }

    /// The arguments of limits by plan that follow those of the limits.
    ///
    /// They are the time-to-live, the bound and the time of the settled reservation. Then follow for each limit the parts to count
    /// and the parts that were counted.
    pub fn unsettled(&self) -> &[u64] {
        &self.args[4 + 10 * (self.keys.len() - 1)..]
    }

    /// The tokens that a lease gives back.
    pub fn back(&self) -> u64 {
        self.args[17]
    }
}

#[derive(Debug)]
struct State {
    mode: Mutex<Mode>,
    tokens: AtomicI64,
    calls: Mutex<Vec<Call>>,
    markers: Mutex<Vec<String>>,
    accepted: AtomicU64,
    knows_scripts: AtomicBool,
    /// µs that the server's clock is ahead.
    ahead: AtomicU64,
    processes: AtomicU64,
    left: AtomicU64,
    /// How long the reply to a script or to `SET` is held back, in µs.
    delay: AtomicU64,
    policy: &'static str,
    /// A command, and the error that answers it.
    refused: Mutex<[&'static str; 2]>,
    ended: AtomicBool,
}

#[derive(Debug)]
pub struct Fake {
    address: SocketAddr,
    state: Arc<State>,
}

impl Fake {
    /// A server with so many tokens.
    pub fn start(tokens: i64) -> Self {
        Self::with_policy(tokens, "noeviction")
    }

    /// A server with this `maxmemory-policy`; an empty one is kept to itself.
    pub fn with_policy(tokens: i64, policy: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let state = Arc::new(State {
            mode: Mutex::new(Mode::Answer),
            tokens: AtomicI64::new(tokens),
            calls: Mutex::default(),
            markers: Mutex::default(),
            accepted: AtomicU64::new(0),
            knows_scripts: AtomicBool::new(true),
            ahead: AtomicU64::new(0),
            processes: AtomicU64::new(1),
            left: AtomicU64::new(0),
            delay: AtomicU64::new(0),
            policy,
            refused: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let fake = Self { address: listener.local_addr().unwrap(), state: Arc::clone(&state) };
        thread::spawn(move || {
            for stream in listener.incoming() {
                if state.ended.load(Ordering::SeqCst) {
                    return;
                }
                state.accepted.fetch_add(1, Ordering::SeqCst);
                let (state, Ok(stream)) = (Arc::clone(&state), stream) else { continue };
                // A connection that breaks is the client's to notice.
                thread::spawn(move || drop(serve(&state, stream)));
            }
        });
        fake
    }

    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    pub fn set(&self, mode: Mode) {
        *self.state.mode.lock().unwrap() = mode;
    }

    /// Answers a command with an error.
    pub fn refuse(&self, command: &'static str, error: &'static str) {
        *self.state.refused.lock().unwrap() = [command, error];
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn set_processes(&self, processes: u64) {
        self.state.processes.store(processes, Ordering::SeqCst);
    }

    pub fn set_clock_ahead(&self, by: Duration) {
        self.state.ahead.store(by.as_micros() as u64, Ordering::SeqCst);
    }

    /// Holds back the replies to scripts and to `SET`. The commands run at once.
    pub fn set_delay(&self, delay: Duration) {
        self.state.delay.store(delay.as_micros() as u64, Ordering::SeqCst);
    }

    pub fn forget_scripts(&self) {
        self.state.knows_scripts.store(false, Ordering::SeqCst);
    }

    pub fn tokens(&self) -> i64 {
        self.state.tokens.load(Ordering::SeqCst)
    }

    pub fn set_tokens(&self, tokens: i64) {
        self.state.tokens.store(tokens, Ordering::SeqCst);
    }

    /// The decisions, leases and resets that arrived.
    pub fn calls(&self) -> Vec<Call> {
        self.state.calls.lock().unwrap().clone()
    }

    /// The keys that were set where they were missing.
    pub fn markers(&self) -> Vec<String> {
        self.state.markers.lock().unwrap().clone()
    }

    /// How many processes said that they leave.
    pub fn left(&self) -> u64 {
        self.state.left.load(Ordering::SeqCst)
    }

    pub fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        _ = TcpStream::connect(self.address);
    }
}

/// An address at which connections are refused.
pub fn refused() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("redis://{}/", listener.local_addr().unwrap())
}

fn serve(state: &State, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut output = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    loop {
        let command = read_command(&mut input)?;
        let mode = *state.mode.lock().unwrap();
        if mode == Mode::Silent {
            continue;
        }
        let name = command[0].to_uppercase();
        let [refused, error] = *state.refused.lock().unwrap();
        let reply = match name.as_str() {
            name if name == refused => format!("-{error}\r\n"),
            "EVALSHA" | "EVAL" => match mode {
                Mode::Answer => {
                    let reply = run(state, &name, &command);
                    thread::sleep(Duration::from_micros(state.delay.load(Ordering::SeqCst)));
                    reply
                }
                Mode::Garbage => "what?\r\n\0\0\0".to_owned(),
                Mode::Nonsense => "*2\r\n:9\r\n:9\r\n".to_owned(),
                Mode::Error => "-OOM command not allowed\r\n".to_owned(),
                Mode::Half => {
                    output.write_all(b"*8\r\n:0\r\n:")?;
                    return Ok(());
                }
                Mode::Close | Mode::Silent => return Ok(()),
            },
            "CONFIG" if state.policy.is_empty() => "-NOPERM no permission to run CONFIG\r\n".to_owned(),
            "CONFIG" => format!("*2\r\n{}{}", bulk("maxmemory-policy"), bulk(state.policy)),
            "TIME" => {
                let now = now(state);
                format!("*2\r\n{}{}", bulk(&(now / 1_000_000).to_string()), bulk(&(now % 1_000_000).to_string()))
            }
            "SET" => {
                state.markers.lock().unwrap().push(command[1..].join(" "));
                thread::sleep(Duration::from_micros(state.delay.load(Ordering::SeqCst)));
                "+OK\r\n".to_owned()
            }
            _ => "+OK\r\n".to_owned(),
        };
        output.write_all(reply.as_bytes())?;
    }
}

fn read_command(input: &mut impl BufRead) -> io::Result<Vec<String>> {
    let number = |line: String| line.trim_end()[1..].parse::<usize>().unwrap();
    let mut line = || -> io::Result<String> {
        let mut line = String::new();
        match input.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    };
    let count = number(line()?);
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let mut length = String::new();
        input.read_line(&mut length)?;
        let mut word = vec![0; number(length) + 2];
        input.read_exact(&mut word)?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Ok(words)
}

fn now(state: &State) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
    now + state.ahead.load(Ordering::SeqCst)
}

fn run(state: &State, command: &str, words: &[String]) -> String {
    if command == "EVAL" {
        state.knows_scripts.store(true, Ordering::SeqCst);
    } else if !state.knows_scripts.load(Ordering::SeqCst) {
        return "-NOSCRIPT No matching script\r\n".to_owned();
    }
    let keys: usize = words[2].parse().unwrap();
    let (keys, args) = words[3..].split_at(keys);
    if args.len() == 2 {
        state.left.fetch_add(u64::from(args[1] == "0"), Ordering::SeqCst);
        let processes = state.processes.load(Ordering::SeqCst);
        return format!("*2\r\n:{processes}\r\n{}", bulk("0"));
    }
    let call = Call {
        command: command.to_owned(),
        keys: keys.to_vec(),
        args: args.iter().map(|arg| arg.parse().unwrap()).collect(),
    };
    let reply = decide(state, &call);
    // A look, as `build` sends it, is left out.
    if !call.is_look() {
        state.calls.lock().unwrap().push(call);
    }
    reply.iter().fold(format!("*{}\r\n", reply.len()), |text, integer| format!("{text}:{integer}\r\n"))
}

/// Decides as the script does on one bucket, however many limits there are.
fn decide(state: &State, call: &Call) -> Vec<u64> {
    const DONE: u64 = 0;
    const DENIED: u64 = 1;
    const LATE: u64 = 2;
    let now = now(state);
    if call.not_after() != 0 && now > call.not_after() {
        return vec![LATE, now];
    }
    let limit = |index: usize| &call.args[4 + 10 * index..14 + 10 * index];
    let (burst, cost, charge, refund) = (limit(0)[2], limit(0)[7], limit(0)[8], limit(0)[9]);
    let mut tokens = state.tokens.load(Ordering::SeqCst) + refund as i64 - charge as i64;
    let (mut status, mut lease) = (DONE, None);
    match call.operation() {
        1 => {
            let [seq, _, unspent, back] = call.args[14..18] else { panic!("a lease has four arguments more") };
            tokens += back as i64;
            let granted = (cost as i64).min(tokens).max(0);
            tokens -= granted;
            // Its length, and the tokens that all holders have: there is one.
            lease = Some([seq, granted as u64, unspent, call.args[2], granted as u64 + unspent]);
        }
        2 => tokens = burst as i64,
        _ if cost as i64 <= tokens.max(0) => tokens -= cost as i64,
        _ => status = DENIED,
    }
    if !call.is_look() {
        tokens = tokens.min(burst as i64);
        state.tokens.store(tokens, Ordering::SeqCst);
    }
    let mut reply = vec![status, now];
    let limits = if call.operation() == 1 { 1 } else { call.keys.len() - 1 };
    for index in 0..limits {
        let [rate, micros, burst, ..] = limit(index) else { panic!("a limit has ten arguments") };
        let owed = (*burst as i64 - tokens).max(0) as u64;
        let full_at = now + owed * micros / (*rate).max(1);
        reply.extend([now, now, owed, 0, 0, full_at]);
        if call.operation() == 3 {
            let count = call.unsettled()[3 + 2 * index];
            reply.push(if status == DONE { count } else { 0 });
        }
    }
    reply.extend(lease.into_iter().flatten());
    reply
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// Tries again until it is so. Fails after ten seconds, which no machine is too slow for.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..1_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} within ten seconds");
}
