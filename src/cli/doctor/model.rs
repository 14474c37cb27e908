//! Carries the scripted model to a host: a server of a few lines on the loopback address, for as long as the host runs.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use serde_json::Value;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::host::install::reply;

/// Largest request that is read: the whole prompt of a host.
const MAX_BODY_BYTES: usize = 32 << 20;
/// Most lines of headers.
const MAX_HEADERS: usize = 200;

/// The model, while it listens.
pub(super) struct Model {
    listener: TcpListener,
    script: Arc<Script>,
}

struct Script {
    command: String,
    heard: Mutex<Heard>,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard {
    /// What the host said that came of the command.
    pub(super) told: Vec<String>,
    /// How many requests came.
    pub(super) asked: usize,
}

impl Model {
    /// Listens on a port that is free; it will ask for `command`.
    pub(super) async fn start(command: String) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        Ok(Self {
            listener: listener.context("cannot listen on 127.0.0.1")?,
            script: Arc::new(Script {
                command,
                heard: Mutex::default(),
            }),
        })
    }

    pub(super) fn address(&self) -> anyhow::Result<SocketAddr> {
        self.listener
            .local_addr()
            .context("cannot listen on 127.0.0.1")
    }

    pub(super) fn heard(&self) -> Heard {
        self.script.heard().clone()
    }

    /// Answers for as long as `work` takes.
    pub(super) async fn serving<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        // What is still open goes with the set.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                done = &mut work => return done,
                Ok((stream, _from)) = self.listener.accept() => {
                    let script = Arc::clone(&self.script);
                    connections.spawn(async move {
                        // A host that goes away in the middle wants no answer.
                        let _answered = script.answer(stream).await;
                    });
                }
            }
        }
    }
}

impl Script {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, stream: TcpStream) -> anyhow::Result<()> {
        let mut stream = BufReader::new(stream);
        let (path, body) = request(&mut stream).await?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let reply = reply(&path, &body, &self.command);
        {
            let mut heard = self.heard();
            heard.asked += 1;
            heard.told.extend(reply.told);
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            reply.content_type,
            reply.body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(reply.body.as_bytes()).await?;
        Ok(stream.shutdown().await?)
    }
}

/// One request: its path and its body.
async fn request(from: &mut (impl AsyncBufRead + Unpin)) -> anyhow::Result<(String, Vec<u8>)> {
    let first = line(from).await?;
    let path = first.split(' ').nth(1).unwrap_or("/").to_owned();
    let mut length = 0_usize;
    let mut is_chunked = false;
    for _ in 0..MAX_HEADERS {
        let line = line(from).await?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse()?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            is_chunked = value.eq_ignore_ascii_case("chunked");
        }
    }
    let mut body = Vec::new();
    if is_chunked {
        loop {
            let length = usize::from_str_radix(line(from).await?.trim(), 16)?;
            take(from, length, &mut body).await?;
            let _end = line(from).await?;
            if length == 0 {
                break;
            }
        }
    } else {
        take(from, length, &mut body).await?;
    }
    Ok((path, body))
}

async fn line(from: &mut (impl AsyncBufRead + Unpin)) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let _count = from.take(64 << 10).read_until(b'\n', &mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

async fn take(
    from: &mut (impl AsyncBufRead + Unpin),
    length: usize,
    body: &mut Vec<u8>,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        body.len() + length <= MAX_BODY_BYTES,
        "the request is too large"
    );
    let _count = from.take(length as u64).read_to_end(body).await?;
    Ok(())
}
