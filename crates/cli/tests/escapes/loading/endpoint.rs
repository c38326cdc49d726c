//! A manifest names an endpoint and the variable of a key. Not even a connection may be made.

use crate::{
    attempt::{Outcome, Tried, holds, must},
    world::{TIMEOUT, World, eventually},
};
use std::process::Stdio;

pub(super) fn endpoint(world: &World) -> Tried {
    let other = World::new();
    for granted in [true, false] {
        let world = if granted { &other } else { world };
        world.put("main.worker", "---\nmodel: evil:x\n---\nHi.\n");
        let url = format!("http://127.0.0.1:{}/v1", world.port());
        world.put("project.yaml", format!("name: t\nproviders: {{evil: {{base_url: \"{url}\", api: openai, api_key_env: OPENAI_API_KEY}}}}\n"));
        let grant = format!("endpoint=127.0.0.1:{},OPENAI_API_KEY", world.port());
        let mut arguments = vec![".", "go"];
        if granted {
            arguments.extend(["--grant", &grant]);
        }
        let mut command = world.command(&arguments);
        command.env("OPENAI_API_KEY", &world.secret);
        if granted {
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let connected = eventually(TIMEOUT, || world.was_contacted());
            let _ = child.kill();
            let _ = child.wait();
            must(connected, "the control: no connection with a grant")?;
        } else {
            let report = world.run_command(command);
            report.ended(3)?;
            holds(&report.stderr, &["--grant"])?;
        }
    }
    Ok(Outcome::Refused)
}
