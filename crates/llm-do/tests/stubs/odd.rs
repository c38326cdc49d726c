// llm-do-stubs: rust eed59e7448f8dc8702fc196a684868b4
// `llm-do stubs --rust` has written this file. Do not edit it.

#![allow(dead_code, clippy::all)]

/// The hash of the signatures, for `llm_do::ProgramBuilder::signatures`.
pub const SIGNATURES: &str = "eed59e7448f8dc8702fc196a684868b4";

#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]
#[serde(crate = "llm_do::serde")]
#[schemars(crate = "llm_do::schemars")]
pub struct ClassInput {
    #[serde(rename = "type")]
    pub r#type: String,
    #[serde(rename = "Self")]
    pub self_: ClassInputSelf,
}

#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]
#[serde(crate = "llm_do::serde")]
#[schemars(crate = "llm_do::schemars")]
pub struct MainInput {
    #[serde(rename = "text")]
    pub text: String,
    #[serde(rename = "style", default, skip_serializing_if = "Option::is_none")]
    pub style: Option<String>,
    #[serde(rename = "self", default, skip_serializing_if = "Option::is_none")]
    pub self_: Option<i64>,
    #[serde(rename = "od d\"k*/ey", default, skip_serializing_if = "Option::is_none")]
    pub od_d_k_ey: Option<f64>,
    #[serde(rename = "\u{43a}\u{43b}\u{44e}\u{447}", default, skip_serializing_if = "Option::is_none")]
    pub f: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]
#[serde(crate = "llm_do::serde")]
#[schemars(crate = "llm_do::schemars")]
pub struct TreeInput {
    /// What to work on: text, or any JSON.
    #[serde(rename = "input", default, skip_serializing_if = "Option::is_none")]
    pub input: Option<llm_do::serde_json::Value>,
}

#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]
#[serde(crate = "llm_do::serde")]
#[schemars(crate = "llm_do::schemars")]
pub struct TreeOutputItemsItem {
    #[serde(rename = "a-b")]
    pub a_b: i64,
    #[serde(rename = "a_b", default, skip_serializing_if = "Option::is_none")]
    pub a_b2: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]
#[serde(crate = "llm_do::serde")]
#[schemars(crate = "llm_do::schemars")]
pub struct Node {
    #[serde(rename = "left", default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Box<Node>>,
    #[serde(rename = "name")]
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]
#[serde(crate = "llm_do::serde")]
#[schemars(crate = "llm_do::schemars")]
pub struct TreeOutput {
    #[serde(rename = "kind")]
    pub kind: TreeOutputKind,
    /// A  text  * / here
    #[serde(rename = "fn", default, skip_serializing_if = "Option::is_none")]
    pub r#fn: Option<String>,
    #[serde(rename = "items", default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<TreeOutputItemsItem>>,
    #[serde(rename = "children", default, skip_serializing_if = "Option::is_none")]
    pub children: Option<Vec<Node>>,
    #[serde(rename = "any", default, skip_serializing_if = "Option::is_none")]
    pub any: Option<llm_do::serde_json::Value>,
    #[serde(rename = "map", default, skip_serializing_if = "Option::is_none")]
    pub map: Option<std::collections::BTreeMap<String, f64>>,
}

/// Output of the worker `class`.
#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]
#[serde(crate = "llm_do::serde")]
#[schemars(crate = "llm_do::schemars")]
pub enum ClassOutput {
    #[serde(rename = "yes")]
    Yes,
    #[serde(rename = "no")]
    No,
}

#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]
#[serde(crate = "llm_do::serde")]
#[schemars(crate = "llm_do::schemars")]
pub enum ClassInputSelf {
    #[serde(rename = "a")]
    A,
    #[serde(rename = "b c")]
    BC,
    #[serde(rename = "self")]
    Self2,
}

#[derive(Clone, Debug, PartialEq, llm_do::serde::Serialize, llm_do::serde::Deserialize, llm_do::schemars::JsonSchema)]
#[serde(crate = "llm_do::serde")]
#[schemars(crate = "llm_do::schemars")]
pub enum TreeOutputKind {
    #[serde(rename = "a")]
    A,
    #[serde(rename = "b c")]
    BC,
    #[serde(rename = "self")]
    Self2,
}

/// Output of the worker `main`.
pub type MainOutput = String;
