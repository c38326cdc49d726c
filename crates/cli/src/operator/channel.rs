//! The channel on which another program answers questions: `--operator` (docs/reference/operator-protocol.md).

use llm_do::ProgramOperator;
use rustix::{
    fs::FileType,
    io::{FdFlags, fcntl_getfd, fcntl_setfd},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::PathBuf,
    str::FromStr,
};
use tokio::net::{UnixStream, unix::pipe};

/// The address of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// The program listens on a socket.
    Socket(PathBuf),
    /// The program has left open descriptors: one to read from and one to write to, or one socket for both.
    Descriptors(RawFd, RawFd),
}

impl FromStr for Channel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| match text.parse::<RawFd>() {
            Ok(fd) if fd > 2 => Ok(fd),
            _ => Err(format!("`{text}` is not the number of a descriptor above 2")),
        };
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Socket(path.into()));
        }
        match text.strip_prefix("fd:").map(|fds| fds.split_once(',').unwrap_or((fds, fds))) {
            Some((read, write)) => Ok(Self::Descriptors(number(read)?, number(write)?)),
            None => Err("write unix:PATH, fd:N for a socket, or fd:READ,WRITE".into()),
        }
    }
}

impl Channel {
    /// Takes the descriptors, so that no started process inherits them. Must be called once, before anything else is
    /// opened.
    pub(crate) fn take(&self) -> io::Result<Taken> {
        match self {
            Self::Socket(path) => Ok(Taken::Socket(std::os::unix::net::UnixStream::connect(path)?)),
            Self::Descriptors(read, write) if read == write => {
                let fd = owned(*read)?;
                let socket = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode).is_socket();
                if !socket {
                    let reason =
                        format!("descriptor {read} is not a socket; a pair of pipes is fd:READ,WRITE");
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
                }
                Ok(Taken::Socket(fd.into()))
            }
            Self::Descriptors(read, write) => Ok(Taken::Pipes(owned(*read)?, owned(*write)?)),
        }
    }
}

/// An open channel to the program.
pub(crate) enum Taken {
    Socket(std::os::unix::net::UnixStream),
    Pipes(OwnedFd, OwnedFd),
}

impl Taken {
    /// Starts the exchange. Must be called inside a runtime.
    pub(crate) fn talk(self) -> io::Result<ProgramOperator> {
        match self {
            Self::Socket(socket) => {
                socket.set_nonblocking(true)?;
                let (reader, writer) = UnixStream::from_std(socket)?.into_split();
                Ok(ProgramOperator::new(reader, writer))
            }
            Self::Pipes(read, write) => {
                let (read, write) =
                    (pipe::Receiver::from_owned_fd(read)?, pipe::Sender::from_owned_fd(write)?);
                Ok(ProgramOperator::new(read, write))
            }
        }
    }
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only asked whether it is open; a number that is not gives an error.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let flags = fcntl_getfd(borrowed)
        .map_err(|error| io::Error::new(io::ErrorKind::NotFound, format!("descriptor {fd}: {error}")))?;
    // SAFETY: it is open, the operator has said that it is for this, and nothing else here uses it.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    fcntl_setfd(owned.as_fd(), flags | FdFlags::CLOEXEC)?;
    Ok(owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_written_so() {
        assert_eq!("unix:/run/x.sock".parse(), Ok(Channel::Socket("/run/x.sock".into())));
        assert_eq!("fd:3".parse(), Ok(Channel::Descriptors(3, 3)));
        assert_eq!("fd:3,4".parse(), Ok(Channel::Descriptors(3, 4)));
        for wrong in ["", "unix:", "fd:", "fd:1", "fd:-1", "fd:3,x", "tcp:80", "/run/x.sock"] {
            assert!(wrong.parse::<Channel>().is_err(), "{wrong}");
        }
    }
}
