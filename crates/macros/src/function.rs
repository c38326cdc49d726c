//! The function under `#[tool]`, and the code that is generated from it.

use crate::declaration::Declaration;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, Meta, Pat, Result, ReturnType, Type,
    ext::IdentExt as _,
};

/// A function that becomes a tool.
#[derive(Debug)]
pub(crate) struct ToolFunction {
    /// The function as it was written, without the attributes of its parameters.
    function: ItemFn,
    description: String,
    parameters: Vec<Parameter>,
}

#[derive(Debug)]
struct Parameter {
    name: Ident,
    of: Type,
    /// The attributes that describe the field of the input: doc comments, `serde`, `schemars`.
    attributes: Vec<Attribute>,
    is_context: bool,
}

impl ToolFunction {
    /// Reads a function.
    ///
    /// # Errors
    /// The function can't be a tool; the error has the reason and the place.
    pub(crate) fn read(item: TokenStream) -> Result<Self> {
        let mut function: ItemFn = syn::parse2(item)?;
        let signature = &mut function.sig;
        if signature.asyncness.is_none() {
            return Err(Error::new_spanned(signature.fn_token, "a tool is an `async fn`"));
        }
        if !signature.generics.params.is_empty() {
            return Err(Error::new_spanned(
                &signature.generics,
                "a tool has no type parameters or lifetimes",
            ));
        }
        let description = doc_comment(&function.attrs);
        if description.is_empty() {
            let message = "a tool needs a doc comment: models read it to know what the tool does";
            return Err(Error::new_spanned(&signature.ident, message));
        }
        let parameters = signature.inputs.iter_mut().map(Parameter::take).collect::<Result<_>>()?;
        Ok(Self { function, description, parameters })
    }

    /// Generates the function, and a type of the same name whose `tool()` is the tool. A type is visible where the
    /// function is, also within the body of another function, where a module could not name the types around it.
    pub(crate) fn expand(&self, declaration: &Declaration) -> TokenStream {
        let Self { function, description, parameters } = self;
        let (name, visibility) = (&function.sig.ident, &function.vis);
        let tool_name = match &declaration.name {
            Some(given) => given.value(),
            None => name.unraw().to_string(),
        };
        let fields = parameters.iter().filter(|parameter| !parameter.is_context);
        let fields = fields.map(|Parameter { name, of, attributes, .. }| quote!(#(#attributes)* #name: #of));
        let context = format_ident!("llm_do_context");
        let arguments = format_ident!("llm_do_arguments");
        let given = parameters.iter().map(|Parameter { name, is_context, .. }| match is_context {
            true => quote!(::std::clone::Clone::clone(&#context)),
            false => quote!(#arguments.#name),
        });
        let call = quote!(#name(#(#given),*).await);
        let outcome = match returns_result(&function.sig.output) {
            true => call,
            false => quote!(::std::result::Result::<_, ::std::convert::Infallible>::Ok(#call)),
        };
        let methods = declaration.methods();
        let about = format!("The tool that is made of the function `{name}`.");
        quote! {
            #function

            #[doc = #about]
            #[allow(non_camel_case_types, dead_code)]
            #visibility struct #name {}

            #[allow(dead_code, unused_variables, clippy::all)]
            impl #name {
                /// The tool.
                #visibility fn tool() -> ::llm_do::Tool {
                    #[derive(
                        ::llm_do::__private::serde::Deserialize,
                        ::llm_do::__private::schemars::JsonSchema,
                    )]
                    #[serde(crate = "::llm_do::__private::serde", deny_unknown_fields)]
                    #[schemars(crate = "::llm_do::__private::schemars")]
                    struct Arguments { #(#fields),* }
                    ::llm_do::Tool::with_context(
                        #tool_name,
                        #description,
                        |#context: ::llm_do::ToolContext, #arguments: Arguments| async move { #outcome },
                    )
                    #methods
                }
            }
        }
    }
}

impl Parameter {
    /// Removes the attributes from the parameter, because a function can't have them.
    fn take(argument: &mut FnArg) -> Result<Self> {
        let FnArg::Typed(typed) = argument else {
            return Err(Error::new_spanned(argument, "a tool is a function and no method: it has no `self`"));
        };
        let Pat::Ident(pattern) = &*typed.pat else {
            return Err(Error::new_spanned(
                &typed.pat,
                "a parameter of a tool is a name, because models fill it by name",
            ));
        };
        let of = (*typed.ty).clone();
        match &of {
            Type::Reference(_) => {
                return Err(Error::new_spanned(
                    &of,
                    "a parameter of a tool has an owned type, such as `String` for `&str`",
                ));
            }
            Type::ImplTrait(_) => {
                return Err(Error::new_spanned(
                    &of,
                    "a parameter of a tool has a type that can be read from JSON",
                ));
            }
            _ => {}
        }
        let attributes = std::mem::take(&mut typed.attrs);
        let is_context = last_name(&of).is_some_and(|name| name == "ToolContext");
        Ok(Self { name: pattern.ident.clone(), of, attributes, is_context })
    }
}

/// The text of the doc comments.
fn doc_comment(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { return None };
        match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if pair.path.is_ident("doc") => Some(text.value()),
            _ => None,
        }
    });
    let lines: Vec<String> =
        lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect();
    lines.join("\n").trim().to_owned()
}

/// The last name of a type's path.
fn last_name(of: &Type) -> Option<&Ident> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        _ => None,
    }
}

/// Returns true if the function may fail. A macro sees names and no types: any `Result` counts, also `io::Result`.
fn returns_result(output: &ReturnType) -> bool {
    match output {
        ReturnType::Default => false,
        ReturnType::Type(_, of) => last_name(of).is_some_and(|name| name == "Result"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> String {
        let tokens = text.parse().expect("tokens");
        ToolFunction::read(tokens).map_or_else(|error| error.to_string(), |_| "it is a tool".into())
    }

    #[test]
    fn functions_that_can_be_no_tool_are_refused_with_the_reason() {
        assert!(reason("/// Adds.\nfn add(a: i64) -> i64 { a }").contains("async fn"));
        assert!(reason("async fn add(a: i64) -> i64 { a }").contains("doc comment"));
        assert!(reason("/// Adds.\nasync fn add(&self) {}").contains("no `self`"));
        assert!(reason("/// Adds.\nasync fn add(text: &str) {}").contains("owned type"));
        assert!(reason("/// Adds.\nasync fn add<T>(a: T) {}").contains("no type parameters"));
        assert!(reason("/// Adds.\nasync fn add((a, b): (i64, i64)) {}").contains("is a name"));
        assert!(reason("/// Adds.\nasync fn add(a: impl Sized) {}").contains("read from JSON"));
        assert!(reason("struct No;").contains("expected"));
    }

    #[test]
    fn doc_comments_of_parameters_describe_fields() {
        let text = "/// Adds.\n///\n/// Two numbers.\nasync fn r#add(/// The first.\n a: i64, context: llm_do::ToolContext) -> io::Result<i64> { Ok(a) }";
        let function = ToolFunction::read(text.parse().expect("tokens")).expect("a tool");
        assert_eq!(function.description, "Adds.\n\nTwo numbers.");
        assert!(
            function
                .function
                .sig
                .inputs
                .iter()
                .all(|input| matches!(input, FnArg::Typed(one) if one.attrs.is_empty()))
        );
        let expanded = function.expand(&Declaration::default()).to_string();
        // A doc comment becomes a plain or a raw string, as the version of the compiler will.
        let fields = expanded.split_once("struct Arguments {").map(|(_, rest)| rest);
        let fields = fields.and_then(|rest| rest.split_once('}')).map(|(fields, _)| fields);
        assert!(fields.is_some_and(|it| it.contains("\" The first.\"] a : i64")), "{expanded}");
        assert!(expanded.contains("\"add\"") && !expanded.contains("Infallible"), "{expanded}");
    }
}
