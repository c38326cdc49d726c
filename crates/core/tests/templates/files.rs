//! Names of templates and files.

use crate::*;

#[test]
fn hostile_names_never_reach_the_source() {
    let files = Files::of([]);
    for name in
        ["../x", "/etc/passwd", "a/../../b", "..\\\\x", "x\\0", "C:/x", "lib:../x", "lib:/etc/passwd", ""]
    {
        for text in [
            format!("{{% include '{name}' %}}"),
            format!("{{% include '{name}' ignore missing %}}"),
            format!("{{% include ['{name}', 'x'] ignore missing %}}"),
            format!("{{% extends '{name}' %}}"),
            format!("{{% import '{name}' as x %}}"),
            format!("{{% from '{name}' import x %}}"),
            format!("{{{{ file('{name}') }}}}"),
        ] {
            let error = refused(&text, &json!({}), &files);
            assert_eq!(error.kind, TemplateErrorKind::Refused, "{text}: {error}");
            assert_eq!(
                (error.place.line, error.place.file.as_str()),
                (5, "workers/greeter.worker"),
                "{text}"
            );
        }
    }
    assert_eq!(*files.asked.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn every_path_traversal_string_is_refused_or_stays_a_relative_name() {
    let Some(strings) = corpus("path-traversal.txt") else {
        println!("skipped: the corpora are not beside the checkout");
        return;
    };
    for name in strings.lines().map(|line| line.replace("{FILE}", "etc/passwd")) {
        if let Ok(name) = confine(&name) {
            let parts = || name.path().split('/');
            assert!(
                parts().all(|part| !matches!(part, "" | "." | "..")) && !name.path().contains('\\'),
                "{name}"
            );
        }
    }
}

#[test]
fn what_the_source_refuses_is_an_error_even_where_missing_is_ignored() {
    let reason = "it is invisible (`.env`)".to_owned();
    let files = Arc::new(Files { refused: [(".env".to_owned(), reason)].into(), ..Files::default() });
    for text in ["{% include '.env' ignore missing %}", "{{ file('.env') }}"] {
        let error = refused(text, &json!({}), &files);
        assert_eq!(error.kind, TemplateErrorKind::Refused);
        assert!(error.message.ends_with("it is invisible (`.env`)"), "{error}");
    }
}
