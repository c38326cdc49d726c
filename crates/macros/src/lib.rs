//! `#[llm_do::tool]`, which makes an async function a tool. Use it through the crate `llm-do`.

mod declaration;
mod function;

use declaration::Declaration;
use function::ToolFunction;
use proc_macro::TokenStream;

/// Makes an async function a tool: `name::tool()` is then the `llm_do::Tool` of the function `name`.
///
/// The doc comment is the description that models read, and the parameters are the tool's input: each type implements
/// `serde::Deserialize` and `schemars::JsonSchema`, and a doc comment on a parameter describes it. The function itself stays
/// as it is, so that other code and tests can call it.
///
/// ```ignore
/// /// Looks up the price of a product, in cents.
/// #[llm_do::tool(reads)]
/// async fn price(
///     /// The product's number.
///     sku: String,
/// ) -> Result<u64, String> {
///     stock().price(&sku).ok_or_else(|| format!("there is no product `{sku}`: look it up with `search`"))
/// }
///
/// let program = llm_do::Program::builder("shop").tool(price::tool()).open()?;
/// ```
///
/// A function that returns a `Result` may fail: the model receives the error as text and can act on it. Any other type is
/// the result. A parameter of type `llm_do::ToolContext` receives the context of the call and is no input.
///
/// | option | meaning |
/// |---|---|
/// | `reads` | it reads and changes nothing: it runs without a question |
/// | `writes` | it changes data: it asks |
/// | `network` | it talks to other machines: it asks, and its results are untrusted |
/// | `executes` | it runs a process or foreign code: it asks. The default |
/// | `destructive` | it removes data irrecoverably: it asks |
/// | `parallel` | calls of it may run beside others of the same turn, whatever the risk |
/// | `untrusted` | its results hold what others wrote |
/// | `trusted` | its results are the program's own, although it uses the network |
/// | `name = "NAME"` | its name for models, in place of the function's |
/// | `timeout = SECONDS` | its time limit, in place of 120 seconds |
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    let made = syn::parse::<Declaration>(options)
        .and_then(|declaration| Ok(ToolFunction::read(item.into())?.expand(&declaration)));
    made.unwrap_or_else(|error| error.to_compile_error()).into()
}
