//! The description of the interface: OpenAPI 3.1, from the table of routes and the types that they take and give.

mod choices;
mod named;

use crate::{
    api::{Body, RequestBody, Route, routes},
    error::ApiError,
    faces,
    notices::Notice,
    token::Scope,
};
use axum::http::Method;
use llm_do::{core::event::Event, records::RunChanges};
use schemars::{
    Schema, SchemaGenerator,
    generate::SchemaSettings,
    transform::{ReplaceBoolSchemas, transform_subschemas},
};
use serde_json::{Map, Value, json};

/// The OpenAPI document (<https://spec.openapis.org/oas/v3.1.1>).
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(without_links);
    // Generators of clients take no `true` for a schema.
    let mut plain = ReplaceBoolSchemas::default();
    plain.skip_additional_properties = true;
    let settings = settings.with_transform(plain);
    let settings = settings.with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut schemas = settings.clone().for_serialize().into_generator();
    let mut given = settings.for_deserialize().into_generator();
    let mut paths = Map::new();
    for route in routes() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(route, &mut given, &mut schemas);
    }
    for route in faces::ROUTES {
        // OpenAPI has no parameters of several parts.
        let path = paths.entry(route.path.replace("{*", "{")).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = of_others(route);
    }
    schemas.subschema_for::<Event>();
    schemas.subschema_for::<RunChanges<'static>>();
    schemas.subschema_for::<Notice>();
    // What is sent and what is given share names only where they share types.
    let mut components = given.take_definitions(true);
    components.extend(schemas.take_definitions(true));
    let components = named::components(components);
    let mut document = json!({
        "openapi": "3.1.1",
        "info": {
            "title": "llm-do serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Start runs of programs, follow their events and answer their questions.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "llm-do-session"},
                "page": {"type": "apiKey", "in": "header", "name": "Llm-Do-Session"},
            },
        },
    });
    choices::joined(&mut document);
    document
}

fn operation(route: &Route, given: &mut SchemaGenerator, sent: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "responses": {},
    });
    let problem = sent.subschema_for::<ApiError>();
    for (status, description) in route.errors() {
        operation["responses"][status.to_string()] = json!({
            "description": description,
            "content": {"application/problem+json": {"schema": problem}},
        });
    }
    for (status, description, body) in route.responses {
        let mut response = json!({"description": description});
        match body {
            Body::None => {}
            Body::Json(schema) => response["content"] = json!({"application/json": {"schema": schema(sent)}}),
            Body::Bytes => {
                let text = json!({"schema": {"type": "string"}});
                response["content"] = json!({"application/octet-stream": bytes(), "text/plain": text});
            }
            Body::Text(kind) => response["content"] = json!({*kind: {"schema": {"type": "string"}}}),
        }
        operation["responses"][status.to_string()] = response;
    }
    let content = match &route.body {
        RequestBody::None => None,
        RequestBody::Json(schema) => Some(json!({"application/json": {"schema": schema(given)}})),
        RequestBody::Bytes => Some(json!({ "application/octet-stream": bytes() })),
    };
    if let Some(content) = content {
        // A file may be empty.
        let required = matches!(route.body, RequestBody::Json(_));
        operation["requestBody"] = json!({"required": required, "content": content});
    }
    if !route.parameters.is_empty() {
        let parameters = route.parameters.iter().map(|parameter| {
            json!({
                "name": parameter.name,
                "in": parameter.place,
                "required": parameter.required,
                "description": parameter.description,
                "schema": (parameter.schema)(),
            })
        });
        operation["parameters"] = parameters.collect();
    }
    if let Some(scope) = route.scope {
        operation["security"] = json!([{"token": []}, {"cookie": [], "page": []}]);
        operation["description"] = scope_text(scope).into();
    }
    operation
}

/// The content of a file.
fn bytes() -> Value {
    json!({"schema": {"type": "string", "format": "binary"}})
}

/// Returns the operation of a route whose format is specified elsewhere.
fn of_others(route: &faces::Route) -> Value {
    let format = route.format.name();
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters = names.map(|name| {
        let (name, description) = match name.strip_prefix('*') {
            Some(name) => (name, "May have several parts, with their slashes."),
            None => (name, "One part."),
        };
        let schema = json!({"type": "string", "minLength": 1});
        json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema})
    });
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "description": format!("Requests and answers, errors included, have the format of {format}. {}", scope_text(route.scope)),
        "externalDocs": {"description": format, "url": route.format.url()},
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": {"default": {"description": format!("As {format} describes it.")}},
        "security": [{"token": []}, {"cookie": [], "page": []}],
    });
    if route.method == Method::POST {
        operation["requestBody"] = json!({"content": {"application/json": {"schema": {"type": "object"}}}});
    }
    operation
}

fn scope_text(scope: Option<Scope>) -> String {
    match scope {
        Some(scope) => format!("The token needs the scope `{}`.", scope.name()),
        None => "Any token will do.".into(),
    }
}

/// Removes Rustdoc's links to other types, which work only in the documentation of Rust.
fn without_links(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace("[`", "`").replace("`]", "`");
    }
    transform_subschemas(&mut without_links, schema);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects every reference in the document.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value {
                        Value::String(to) if name == "$ref" => found.push(to.clone()),
                        value => references(value, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn names_of_operations_are_unique_and_formats_of_others_have_a_link() {
        let document = document();
        let paths = document["paths"].as_object().expect("paths").values();
        let operations: Vec<&Value> =
            paths.flat_map(|path| path.as_object().expect("operations").values()).collect();
        let mut names: Vec<&str> =
            operations.iter().filter_map(|operation| operation["operationId"].as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), operations.len());
        let linked = |path: &str, method: &str| {
            document["paths"][path][method]["externalDocs"]["url"]
                .as_str()
                .is_some_and(|url| url.starts_with("https://"))
        };
        for (path, method) in [
            ("/v1/chat/completions", "post"),
            ("/v1/responses/{response}", "get"),
            ("/v1/models/{model}", "get"),
            ("/v1/ag-ui/{program}/{worker}", "post"),
            ("/mcp", "delete"),
        ] {
            assert!(linked(path, method), "{method} {path}");
        }
    }

    #[test]
    fn every_route_is_described_and_every_reference_leads_somewhere() {
        let document = document();
        let operations = document["paths"].as_object().expect("paths").values();
        let operations: usize = operations.map(|path| path.as_object().map_or(0, Map::len)).sum();
        assert_eq!(operations, routes().count() + faces::ROUTES.len());
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for to in found {
            let pointer = to.strip_prefix('#').expect(&to);
            assert!(document.pointer(pointer).is_some(), "{to}");
        }
    }
}
