//! Runs one command confined, for manual tests of the layers and as the supervisor of tests.
//!
//! ```text
//! llm-do-confine [--tier a|b|none] [--read PLACE]… [--write PLACE]… [--cwd FOLDER] [--network | --domain DOMAIN…] PROGRAM [ARG]…
//! llm-do-confine --probe
//! ```
//!
//! The program sees the machine's own programs, a private temporary folder and the given places. Its exit code is
//! passed on; 125 means that it was not started.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "llm-do-confine: nothing can confine a process on this system yet");
    std::process::ExitCode::from(125)
}

#[cfg(target_os = "linux")]
mod linux {
    use llm_do_core::authority::{Domain, Network};
    use llm_do_sandbox::confine::{Confinement, Process, ProcessView, Tier, env_allowlist, install, probe};
    use std::{
        ffi::OsString,
        io::{self, Write},
        process::ExitCode,
    };

    const NOT_STARTED: u8 = 125;

    pub(super) fn main() -> ExitCode {
        install();
        let run = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match run.map_err(|error| error.to_string()).and_then(|run| run.block_on(command())) {
            Ok(code) => ExitCode::from(code),
            Err(message) => {
                let _ = writeln!(io::stderr(), "llm-do-confine: {message}");
                ExitCode::from(NOT_STARTED)
            }
        }
    }

    async fn command() -> Result<u8, String> {
        let mut args = std::env::args_os().skip(1);
        let mut tier = None;
        let (mut readable, mut writable, mut cwd) = (Vec::new(), Vec::new(), None);
        let mut network = Network::Off;
        let mut domains = Vec::new();
        let program = loop {
            let arg = args.next().ok_or("which program? usage: llm-do-confine [OPTION]… PROGRAM [ARG]…")?;
            let mut value = || args.next().ok_or(format!("{} needs a value", arg.display()));
            match arg.to_str() {
                Some("--probe") => return Ok(print_probe()),
                Some("--tier") => tier = Some(value()?),
                Some("--read") => readable.push(value()?.into()),
                Some("--write") => writable.push(value()?.into()),
                Some("--cwd") => cwd = Some(value()?.into()),
                Some("--network") => network = Network::On,
                Some("--domain") => {
                    let domain = value()?.into_string().map_err(|_| "a domain is text")?;
                    domains.push(Domain::parse(&domain).map_err(|error| error.to_string())?);
                    network = Network::domains(domains.clone());
                }
                Some(option) if option.starts_with("--") => {
                    return Err(format!("there is no option {option}"));
                }
                _ => break arg,
            }
        };
        let confinement = match tier.as_ref().map(|tier| tier.to_str()) {
            None => Confinement::Tier(probe().tier.ok_or("nothing can confine a process here; see --probe")?),
            Some(Some("a")) => Confinement::Tier(Tier::Namespaces),
            Some(Some("b")) => Confinement::Tier(Tier::Landlock),
            Some(Some("none")) => Confinement::Unconfined,
            Some(_) => return Err("the tier is a, b or none".into()),
        };
        let view = ProcessView::empty().with_readable(readable).with_writable(writable);
        let mut process = Process::new(program, view, confinement);
        process.args = args.collect();
        process.cwd = cwd;
        process.network = network;
        let env = env_allowlist(|name| std::env::var(name).ok());
        process.env = env.into_iter().map(|(name, value)| (OsString::from(name), value.into())).collect();
        let mut running = process.start().await.map_err(|error| error.to_string())?;
        let out = tokio::spawn(copy(running.stdout(), tokio::io::stdout()));
        let err = tokio::spawn(copy(running.stderr(), tokio::io::stderr()));
        let exit = running.wait().await;
        let (_, _) = (out.await, err.await);
        if let Some(reason) = &exit.reason {
            let _ = writeln!(io::stderr(), "llm-do-confine: {reason}");
        }
        let code = exit.code.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(NOT_STARTED.into());
        Ok(u8::try_from(code).unwrap_or(NOT_STARTED))
    }

    async fn copy(
        from: Option<impl tokio::io::AsyncRead + Unpin>,
        mut to: impl tokio::io::AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let Some(mut from) = from else { return Ok(()) };
        tokio::io::copy(&mut from, &mut to).await?;
        tokio::io::AsyncWriteExt::flush(&mut to).await
    }

    fn print_probe() -> u8 {
        let probe = probe();
        let mut out = io::stdout();
        for layer in &probe.layers {
            let works = if layer.works { "yes" } else { "no" };
            let _ = writeln!(out, "{}: {works}: {}", layer.name, layer.found);
        }
        let _ = match probe.tier {
            Some(tier) => writeln!(out, "tier {}", tier.letter()),
            None => writeln!(out, "no tier"),
        };
        u8::from(probe.tier.is_none())
    }
}
