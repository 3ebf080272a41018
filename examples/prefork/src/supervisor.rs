//! The supervisor: four workers, each restarted when it dies.

use crate::limits::Shared;
use crate::listen;
use damper_shm::Workers;
use std::env;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

/// The argument that makes a process a worker.
pub(crate) const WORKER: &str = "worker";

/// How many workers there are.
pub(crate) const COUNT: usize = 4;

/// Binds the port, so that it stays the server's while no worker listens.
pub(crate) fn reserve(runtime: &Runtime, address: SocketAddr) -> io::Result<(TcpSocket, SocketAddr)> {
    let _context = runtime.enter();
    let socket = listen::shared(address)?;
    let bound = socket.local_addr()?;
    Ok((socket, bound))
}

/// Returns the command that starts a worker.
pub(crate) fn worker(address: SocketAddr) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    // A worker reads its standard input to notice that the supervisor is gone.
    command.arg(WORKER).arg(address.to_string()).stdin(Stdio::piped());
    Ok(command)
}

/// Serves until it is killed; the workers end with it.
pub(crate) fn serve(runtime: &Runtime, address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let (_reserved, address) = reserve(runtime, address)?;
    let shared = Shared::create()?;
    let mut workers = Workers::new(shared.words()).reclaims(shared.slots());
    for _ in 0..COUNT {
        workers.spawn(worker(address)?)?;
    }
    println!("http://{address}: {COUNT} workers");
    while let Some(exited) = workers.wait()? {
        eprintln!("{exited}");
        // A worker that cannot start would be restarted without a pause.
        thread::sleep(Duration::from_millis(100));
        workers.spawn(worker(address)?)?;
    }
    Ok(())
}
