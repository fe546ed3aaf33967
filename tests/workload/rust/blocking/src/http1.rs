//! HTTP/1.1 with bodies whose length is told.

use std::io::{self, BufRead, Write};

use told::Request;

/// A request or an answer.
pub struct Message {
    pub line: String,
    pub nonce: String,
    pub body: Vec<u8>,
}

impl Message {
    /// Returns the second word: the status of an answer, the target of a request.
    pub fn second(&self) -> &str {
        self.line.split(' ').nth(1).unwrap()
    }
}

pub fn send(stream: &mut impl Write, request: &Request) -> io::Result<()> {
    let Request { nonce, method, target, body } = request;
    let length = body.len();
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nhost: localhost\r\nx-nonce: {nonce}\r\n\
         content-length: {length}\r\n\r\n"
    )?;
    stream.write_all(body)?;
    stream.flush()
}

pub fn receive(stream: &mut impl BufRead) -> io::Result<Message> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let mut message = Message { line, nonce: String::new(), body: vec![] };
    loop {
        let mut header = String::new();
        stream.read_line(&mut header)?;
        let Some((name, value)) = header.split_once(':') else { break };
        match &name.to_lowercase()[..] {
            "content-length" => message.body.resize(value.trim().parse().unwrap(), 0),
            "x-nonce" => message.nonce = value.trim().into(),
            _ => {}
        }
    }
    stream.read_exact(&mut message.body)?;
    Ok(message)
}
