// llm-do-stubs: rust 614590f2570429893cf77c18ae1ec6a0
// `llm-do stubs --rust` has written this file. Do not edit it.

#![allow(dead_code, clippy::all)]

/// The hash of the signatures, for `llm_do::ProgramBuilder::signatures`.
pub const SIGNATURES: &str = "614590f2570429893cf77c18ae1ec6a0";

#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]
#[serde(crate = "llm_do::serde")]
#[schemars(crate = "llm_do::schemars")]
pub struct MainInput {
    #[serde(rename = "text")]
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]
#[serde(crate = "llm_do::serde")]
#[schemars(crate = "llm_do::schemars")]
pub struct MainOutputLinesItem {
    #[serde(rename = "description")]
    pub description: String,
    #[serde(rename = "amount")]
    pub amount: f64,
}

#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]
#[serde(crate = "llm_do::serde")]
#[schemars(crate = "llm_do::schemars")]
pub struct MainOutput {
    #[serde(rename = "supplier")]
    pub supplier: String,
    #[serde(rename = "invoice_number")]
    pub invoice_number: String,
    /// as YYYY-MM-DD
    #[serde(rename = "date")]
    pub date: String,
    #[serde(rename = "currency")]
    pub currency: MainOutputCurrency,
    #[serde(rename = "total")]
    pub total: f64,
    #[serde(rename = "lines")]
    pub lines: Vec<MainOutputLinesItem>,
}

#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]
#[serde(crate = "llm_do::serde")]
#[schemars(crate = "llm_do::schemars")]
pub enum MainOutputCurrency {
    #[serde(rename = "EUR")]
    EUR,
    #[serde(rename = "USD")]
    USD,
    #[serde(rename = "GBP")]
    GBP,
}

