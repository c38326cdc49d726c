//! Signing in at MCP servers over HTTP (docs/guides/mcp.md), against an authorisation server on a loopback port.

use crate::{
    remote_server::{Answer, Asked, RemoteServer, get, status},
    scenario::{Finished, Scenario},
};
use reqwest::Url;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A fault of the authorisation server.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The metadata names another issuer.
    OtherIssuer,
    /// The browser returns with the name of another issuer.
    OtherIssuerInAnswer,
    /// The server says that its tokens are for another one.
    OtherResource,
    /// The metadata is elsewhere.
    RedirectsElsewhere,
    /// The server does not support PKCE.
    NoPkce,
    /// The server takes codes over plain HTTP, at another host.
    PlainTokens,
    /// The tokens expire at once.
    ShortTokens,
    /// The server takes no refresh token.
    NoRefresh,
}

/// A server that wants a token, and its authorisation server.
fn provider(fault: Fault) -> RemoteServer {
    let (tokens, current) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    RemoteServer::new(move |asked| {
        let host = asked.head.split("host: ").nth(1).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let me = format!("http://{host}");
        let path = asked.path.split('?').next().unwrap_or_default();
        let answer = match path {
            "/mcp"
                if asked
                    .head
                    .contains(&format!("bearer access-token-{}", current.load(Ordering::SeqCst))) =>
            {
                return None;
            }
            "/mcp" => {
                let at = format!("{me}/.well-known/oauth-protected-resource/mcp");
                return Some(status(
                    401,
                    &format!("WWW-Authenticate: Bearer resource_metadata=\"{at}\"\r\n"),
                ));
            }
            "/.well-known/oauth-protected-resource/mcp" => {
                let resource = match fault {
                    Fault::OtherResource => "https://bank.example/api".to_owned(),
                    _ => format!("{me}/mcp"),
                };
                json!({"resource": resource, "authorization_servers": [me]})
            }
            "/.well-known/oauth-authorization-server" if fault == Fault::RedirectsElsewhere => {
                return Some(status(302, "Location: http://127.0.0.1:9/metadata\r\n"));
            }
            "/.well-known/oauth-authorization-server" => json!({
                "issuer": if fault == Fault::OtherIssuer { "https://bank.example".to_owned() } else { me.clone() },
                "authorization_endpoint": format!("{me}/authorize"),
                "token_endpoint": match fault {
                    Fault::PlainTokens => "http://tokens.example/token".to_owned(),
                    _ => format!("{me}/token"),
                },
                "registration_endpoint": format!("{me}/register"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": if fault == Fault::NoPkce { json!(["plain"]) } else { json!(["S256"]) },
                "authorization_response_iss_parameter_supported": true,
            }),
            "/register" => {
                let mut client = asked.message();
                client["client_id"] = json!("llm-do-here");
                client
            }
            "/authorize" => {
                let url = Url::parse(&format!("{me}{}", asked.path)).expect("an address");
                let of = |name: &str| parameter(&url, name).unwrap_or_default();
                let mut back = Url::parse(&of("redirect_uri")).expect("an address");
                let issuer = if fault == Fault::OtherIssuerInAnswer { "https://bank.example" } else { &me };
                back.query_pairs_mut()
                    .append_pair("code", "the-code")
                    .append_pair("state", &of("state"))
                    .append_pair("iss", issuer);
                return Some(status(302, &format!("Location: {back}\r\n")));
            }
            "/token" if asked.body.contains("grant_type=refresh_token") && fault == Fault::NoRefresh => {
                let body = json!({"error": "invalid_grant"}).to_string().into_bytes();
                return Some(Answer::Reply(400, "Content-Type: application/json\r\n".into(), body));
            }
            "/token" => {
                let number = tokens.fetch_add(1, Ordering::SeqCst);
                current.store(number, Ordering::SeqCst);
                let short = [Fault::ShortTokens, Fault::NoRefresh].contains(&fault) && number == 0;
                json!({
                    "access_token": format!("access-token-{number}"), "token_type": "Bearer",
                    "expires_in": if short { 0 } else { 3600 },
                    "refresh_token": format!("refresh-token-{number}"),
                })
            }
            _ => return Some(status(404, "")),
        };
        let body = answer.to_string().into_bytes();
        Some(Answer::Reply(200, "Content-Type: application/json\r\n".into(), body))
    })
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn project(server: &RemoteServer) -> Scenario {
    let call = json!({"when": {"turn": 0}, "calls": [{"tool": "s__echo", "arguments": {"text": "hello"}}]});
    let servers = json!({"s": {"url": server.url()}});
    let worker = json!({"model": "script:s.yaml", "toolsets": {"mcp": {"servers": servers}}});
    Scenario::new()
        .file("main.worker", &format!("---\n{worker}\n---\nGo.\n"))
        .file("s.yaml", &json!({"answers": [call, {"text": "done"}]}).to_string())
}

/// Signs in with a browser that follows where it is sent. `visit` may do something before.
fn sign_in(scenario: &Scenario, server: &RemoteServer, visit: impl Fn(&Url)) -> Finished {
    sign_in_at(scenario, &server.url(), visit)
}

/// The same for a server by its address or its name.
fn sign_in_at(scenario: &Scenario, server: &str, visit: impl Fn(&Url)) -> Finished {
    let mut command = scenario.command(&["mcp", "login", server]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    let address = loop {
        let mut line = String::new();
        if stderr.read_line(&mut line).expect("a line") == 0 {
            break None;
        }
        said.push_str(&line);
        if let Some(address) = Url::parse(line.trim()).ok().filter(Url::has_host) {
            break Some(address);
        }
    };
    if let Some(address) = address {
        visit(&address);
        let sent = get(&address);
        let back = sent.lines().find_map(|line| line.strip_prefix("Location: "));
        get(&Url::parse(back.expect("the way back").trim()).expect("an address"));
    }
    stderr.read_to_string(&mut said).expect("its end");
    let mut output = child.wait_with_output().expect("it ends");
    output.stderr = said.into_bytes();
    scenario.finished(output)
}

fn run(scenario: &Scenario, server: &RemoteServer) -> Finished {
    let grant = format!("network=127.0.0.1:{}", server.port);
    let told = scenario.run(&[".", "--grant", &grant, "--allow", "s:*"]);
    assert_eq!(told.code, Some(0), "{told}");
    told
}

fn tokens(scenario: &Scenario) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(scenario.home().join("home/.llm-do/mcp/credentials")) else {
        return Vec::new();
    };
    let files = files.map(|file| file.expect("an entry").path());
    files.filter(|file| file.extension().is_some_and(|suffix| suffix == "json")).collect()
}

/// The outputs of the calls of the newest run.
fn outputs(scenario: &Scenario) -> Vec<Value> {
    let journal = scenario.journal();
    let ended = journal.iter().filter(|record| record["kind"] == "tool_ended");
    ended.map(|record| record["ending"]["output"].clone()).collect()
}

fn bodies(server: &RemoteServer, path: &str) -> Vec<String> {
    let of = |asked: Asked| (asked.path == path).then_some(asked.body);
    server.asked().into_iter().filter_map(of).collect()
}

#[test]
fn a_user_signs_in_once_and_runs_use_the_token() {
    let server = provider(Fault::None);
    let scenario = project(&server);
    let told = run(&scenario, &server);
    assert!(told.stderr.contains(&format!("llm-do mcp login {}", server.url())), "{told}");

    let told = sign_in(&scenario, &server, |address| {
        assert_eq!(parameter(address, "code_challenge_method").as_deref(), Some("S256"));
        assert_eq!(parameter(address, "resource"), Some(server.url()), "the token is for this server");
        // Neither another path nor another state ends the sign-in.
        let back =
            Url::parse(&parameter(address, "redirect_uri").expect("the way back")).expect("an address");
        for wrong in ["/favicon.ico", "/callback?code=stolen&state=guessed", "/callback?error=access_denied"]
        {
            assert!(get(&back.join(wrong).expect("an address")).starts_with("HTTP/1.1 404"), "{wrong}");
        }
    });
    assert_eq!(told.code, Some(0), "{told}");
    let exchange = bodies(&server, "/token");
    assert!(exchange[0].contains("code_verifier=") && exchange[0].contains("code=the-code"), "{exchange:?}");
    let [file] = &*tokens(&scenario) else { panic!("one file") };
    assert_eq!(fs::metadata(file).expect("a file").permissions().mode() & 0o777, 0o600);

    let ran = run(&scenario, &server);
    assert_eq!(outputs(&scenario), ["hello"], "{ran}");
    let everything = format!("{told}{ran}{}", json!(scenario.journal()));
    assert!(
        !everything.contains("access-token-0") && !everything.contains("refresh-token-0"),
        "{everything}"
    );

    let told = scenario.run(&["mcp", "logout", &server.url()]);
    assert_eq!((told.code, tokens(&scenario).len()), (Some(0), 0), "{told}");
    let again = scenario.run(&["mcp", "logout", &server.url()]);
    assert_eq!(again.code, Some(2), "{again}");
}

#[test]
fn a_project_says_how_to_sign_in_at_its_servers() {
    let server = provider(Fault::None);
    let servers = json!({"mcp_servers": {
        "s": {"url": server.url(), "auth": {"client_id": "registered-before", "scopes": ["notes:read", "notes:write"]}},
        "local": {"command": "python3"},
    }});
    let scenario = project(&server)
        .file("project.yaml", &servers.to_string())
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: {mcp: [s]}\n---\nGo.\n");
    let told = sign_in_at(&scenario, "s", |address| {
        assert_eq!(parameter(address, "client_id").as_deref(), Some("registered-before"));
        assert_eq!(parameter(address, "scope").as_deref(), Some("notes:read notes:write"));
    });
    assert_eq!(told.code, Some(0), "{told}");
    assert!(bodies(&server, "/register").is_empty(), "it is registered");
    let ran = run(&scenario, &server);
    assert_eq!(outputs(&scenario), ["hello"], "{ran}");
    assert_eq!(scenario.run(&["mcp", "logout", "s"]).code, Some(0));
    assert!(tokens(&scenario).is_empty());

    for (name, says) in [("local", "is a local process and has no sign-in"), ("none", "no MCP server `none`")]
    {
        let told = scenario.run(&["mcp", "login", name]);
        assert!(told.code == Some(2) && told.stderr.contains(says), "{told}");
    }
}

/// A replacement for the tool of the keyring, which is locked while `locked` exists.
const SECRET_TOOL: &str = r#"#!/bin/sh
echo "$*" >> "$HOME/calls"
if [ -e "$HOME/locked" ]; then echo "the keyring is locked" >&2; exit 1; fi
case $1 in
store) cat > "$HOME/keyring" ;;
lookup) [ -e "$HOME/keyring" ] && cat "$HOME/keyring" ;;
clear) rm "$HOME/keyring" ;;
esac
"#;

/// A user with a keyring.
fn with_keyring(scenario: Scenario) -> Scenario {
    let folder = scenario.home().join("tools");
    let tool = folder.join("secret-tool");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(&tool, SECRET_TOOL).expect("a file");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("its mode");
    scenario
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
}

#[test]
fn tokens_are_in_the_keyring_where_there_is_one() {
    let server = provider(Fault::ShortTokens);
    let scenario = with_keyring(project(&server));
    let told = sign_in(&scenario, &server, |_| ());
    assert!(told.code == Some(0) && told.stderr.contains("the tokens are in your keyring"), "{told}");
    let home = scenario.home().join("home");
    let held = || fs::read_to_string(home.join("keyring")).unwrap_or_default();
    assert!(held().contains("access-token-0"), "{}", held());
    let file = || fs::read_to_string(&tokens(&scenario)[0]).expect("the file");
    assert!(!file().contains("token-0"), "{}", file());

    let ran = run(&scenario, &server);
    assert_eq!(outputs(&scenario), ["hello"], "{ran}");
    assert!(held().contains("access-token-1"), "it was renewed in the keyring: {}", held());
    let calls = fs::read_to_string(home.join("calls")).expect("the calls");
    assert!(!calls.contains("token-"), "no secret is an argument: {calls}");
    assert!(calls.matches("lookup").count() <= 4, "requests do not ask the keyring: {calls}");

    // From a service or over SSH, the keyring can't be reached.
    let grant = format!("network=127.0.0.1:{}", server.port);
    let mut away = scenario.command(&[".", "--grant", &grant, "--allow", "s:*"]);
    let told = scenario.finished(away.env_remove("DBUS_SESSION_BUS_ADDRESS").output().expect("it runs"));
    let journal = json!(scenario.journal()).to_string();
    assert!(journal.contains("keyring of your desktop session"), "{told}{journal}");

    // Tokens that a locked keyring does not take are kept in the file.
    fs::write(home.join("locked"), "").expect("a file");
    let told = sign_in(&scenario, &server, |_| ());
    assert!(told.stderr.contains("the tokens are in a file that only you can read"), "{told}");
    assert!(file().contains("access-token-2"), "{}", file());
    assert_eq!(fs::metadata(&tokens(&scenario)[0]).expect("a file").permissions().mode() & 0o777, 0o600);
    fs::remove_file(home.join("locked")).expect("the file");
    assert_eq!(sign_in(&scenario, &server, |_| ()).code, Some(0));
    let told = scenario.run(&["mcp", "logout", &server.url()]);
    assert_eq!((told.code, tokens(&scenario).len(), held()), (Some(0), 0, String::new()), "{told}");
}

#[test]
fn a_token_is_renewed_when_it_expires_or_is_refused() {
    let server = provider(Fault::ShortTokens);
    let scenario = project(&server);
    assert_eq!(sign_in(&scenario, &server, |_| ()).code, Some(0));
    let ran = run(&scenario, &server);
    assert_eq!(outputs(&scenario), ["hello"], "{ran}");
    let exchanges = bodies(&server, "/token");
    assert_eq!(exchanges.len(), 2, "{exchanges:?}");
    assert!(exchanges[1].contains("refresh_token=refresh-token-0"), "{exchanges:?}");

    let server = provider(Fault::NoRefresh);
    let scenario = project(&server);
    assert_eq!(sign_in(&scenario, &server, |_| ()).code, Some(0));
    let ran = run(&scenario, &server);
    assert!(ran.stderr.contains("Sign in with `llm-do mcp login"), "{ran}");
}

#[test]
fn an_authorisation_server_that_is_not_what_it_should_be_is_refused() {
    for (fault, wrong) in [
        (Fault::OtherIssuer, "bank.example"),
        (Fault::OtherIssuerInAnswer, "bank.example"),
        (Fault::OtherResource, "bank.example"),
        (Fault::RedirectsElsewhere, "cannot sign in"),
        (Fault::NoPkce, "PKCE"),
        (Fault::PlainTokens, "plain `http`"),
    ] {
        let server = provider(fault);
        let scenario = project(&server);
        let told = sign_in(&scenario, &server, |_| ());
        assert_eq!(told.code, Some(1), "{told}");
        assert!(told.stderr.contains(wrong), "{wrong}: {told}");
        assert!(tokens(&scenario).is_empty(), "{wrong}: {told}");
        assert!(!told.stderr.contains("the-code"), "{told}");
    }
    let told = Scenario::new().run(&["mcp", "login", "http://mcp.example/"]);
    assert!(told.code == Some(1) && told.stderr.contains("`https` address"), "{told}");
}
