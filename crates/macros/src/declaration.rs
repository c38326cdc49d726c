//! The options of `#[tool(…)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Error, Ident, LitFloat, LitInt, LitStr, Result, Token,
    parse::{Parse, ParseStream},
};

/// The options that the author declares for a tool.
#[derive(Default)]
pub(crate) struct Declaration {
    pub(crate) name: Option<LitStr>,
    risk: Option<(Ident, &'static str)>,
    origin: Option<(Ident, &'static str)>,
    parallel: bool,
    timeout: Option<f64>,
}

const RISKS: [(&str, &str); 5] = [
    ("reads", "Read"),
    ("writes", "Write"),
    ("network", "Network"),
    ("executes", "Exec"),
    ("destructive", "Destructive"),
];

const ORIGINS: [&str; 2] = ["trusted", "untrusted"];

impl Parse for Declaration {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut declaration = Self::default();
        while !input.is_empty() {
            declaration.option(input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(declaration)
    }
}

impl Declaration {
    fn option(&mut self, input: ParseStream<'_>) -> Result<()> {
        let option: Ident = input.parse()?;
        let word = option.to_string();
        if let Some((_, risk)) = RISKS.into_iter().find(|(known, _)| *known == word) {
            return once(&mut self.risk, option, risk);
        }
        if let Some(origin) = ORIGINS.into_iter().find(|known| *known == word) {
            return once(&mut self.origin, option, origin);
        }
        match word.as_str() {
            "parallel" => self.parallel = true,
            "name" => {
                input.parse::<Token![=]>()?;
                self.name = Some(input.parse()?);
            }
            "timeout" => {
                input.parse::<Token![=]>()?;
                self.timeout = Some(seconds(input)?);
            }
            _ => {
                let known = "reads, writes, network, executes, destructive, parallel, trusted, untrusted, name, timeout";
                return Err(Error::new(
                    option.span(),
                    format!("`{word}` is no option of a tool. There are: {known}"),
                ));
            }
        }
        Ok(())
    }

    /// The calls of methods of `Tool` that declare the options.
    pub(crate) fn methods(&self) -> TokenStream {
        let risk = self.risk.as_ref().map(|(option, risk)| {
            let risk = Ident::new(risk, option.span());
            quote!(.risk(::llm_do::Risk::#risk))
        });
        let origin = self.origin.as_ref().map(|(option, _)| quote!(.#option()));
        let parallel = self.parallel.then(|| quote!(.parallel()));
        let timeout =
            self.timeout.map(|seconds| quote!(.timeout(::std::time::Duration::from_secs_f64(#seconds))));
        quote!(#risk #origin #parallel #timeout)
    }
}

fn once(place: &mut Option<(Ident, &'static str)>, option: Ident, value: &'static str) -> Result<()> {
    if let Some((earlier, _)) = place {
        return Err(Error::new(option.span(), format!("`{earlier}` says something else: keep one of them")));
    }
    *place = Some((option, value));
    Ok(())
}

/// A number of seconds that a duration can have.
fn seconds(input: ParseStream<'_>) -> Result<f64> {
    let (seconds, span) = if input.peek(LitInt) {
        let number: LitInt = input.parse()?;
        (number.base10_parse()?, number.span())
    } else {
        let number: LitFloat = input.parse()?;
        (number.base10_parse()?, number.span())
    };
    match seconds {
        seconds if seconds > 0.0 && seconds <= 1e9 => Ok(seconds),
        _ => Err(Error::new(span, "a timeout is a number of seconds between 0 and 1e9")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(text: &str) -> std::result::Result<String, String> {
        syn::parse_str::<Declaration>(text)
            .map(|declaration| declaration.methods().to_string().replace(' ', ""))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_read() {
        assert_eq!(methods(""), Ok(String::new()));
        let all = "writes, untrusted, parallel, name = \"x\", timeout = 2";
        let expected = ".risk(::llm_do::Risk::Write).untrusted().parallel().timeout(::std::time::Duration::from_secs_f64(2f64))";
        assert_eq!(methods(all), Ok(expected.to_owned()));
    }

    #[test]
    fn wrong_options_are_errors_that_name_the_right_ones() {
        assert!(methods("read").is_err_and(|error| error.contains("There are: reads")));
        assert!(methods("reads, writes").is_err_and(|error| error.contains("`reads` says something else")));
        for timeout in ["0", "-1", "1e300", "\"2s\""] {
            assert!(methods(&format!("timeout = {timeout}")).is_err(), "{timeout}");
        }
    }
}
