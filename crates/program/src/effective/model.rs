//! The model of a worker, and the sampling settings that come with it. See `docs/guides/models.md`.

use super::sections::settings;
use crate::{
    context::Context,
    diagnostics::{Diagnostic, codes},
    yaml::Node,
};
use llm_do_core::{
    model::ModelName,
    worker::{InheritedSettings, Profile},
};

impl Context<'_> {
    /// Returns the models of a `model`, in order: one, or those of a list.
    pub(crate) fn model_names(&self, node: &Node, found: &mut Vec<Diagnostic>) -> Vec<ModelName> {
        let mut names: Vec<ModelName> = Vec::new();
        for node in node.each() {
            let Some(name) = self.model_name(node, found) else { continue };
            if names.contains(&name) {
                let message = format!("`{name}` is listed twice: it can't stand in for itself");
                found.push(
                    Diagnostic::error(codes::BAD_MODEL, message).at(&node.span).help("remove one of them"),
                );
            } else {
                names.push(name);
            }
        }
        if node.each().is_empty() {
            found.push(
                Diagnostic::error(codes::BAD_MODEL, "the list of models is empty")
                    .at(&node.span)
                    .help("name at least one model, or remove the key"),
            );
        }
        names
    }

    /// Returns a model's name, or the model of the package's profile that a text names.
    pub(crate) fn model_name(&self, node: &Node, found: &mut Vec<Diagnostic>) -> Option<ModelName> {
        let text = node.as_text()?;
        let profiles = &self.package.manifest.models;
        if let Some(profile) = profiles.get(text) {
            // The manifest is where its errors are reported.
            return self.provider_model(&profile.model, &mut Vec::new());
        }
        if !text.contains(':') && !profiles.is_empty() && !self.package.manifest.is_partial {
            let message = format!("`{text}` is neither a model name nor one of the manifest's `models`");
            found.push(
                Diagnostic::error(codes::BAD_MODEL, message)
                    .at(&node.span)
                    .did_you_mean(text, profiles.keys().map(String::as_str))
                    .help("write `provider:model`, or the name of a profile"),
            );
            return None;
        }
        if !text.contains(':') && self.package.manifest.is_partial {
            // The profile may be one that could not be read.
            return None;
        }
        self.provider_model(node, found)
    }

    /// Returns the settings that a worker inherits: those of its project, and those of the profiles that name its
    /// models.
    pub(super) fn inherited_settings(&self, keys: &Node) -> InheritedSettings {
        let project = self.package.manifest.model_settings.as_ref().map(settings).unwrap_or_default();
        let (own, program) = (&self.package.manifest, &self.packages.program().manifest);
        let (node, of) = match keys.get("model").or(own.model.as_ref()) {
            Some(node) => (Some(node), own),
            None => (program.model.as_ref(), program),
        };
        let named = node.map(Node::each).unwrap_or_default().iter();
        let profiles = named.filter_map(|node| of.models.get(node.as_text()?)).filter_map(|profile| {
            Some(Profile {
                model: self.provider_model(&profile.model, &mut Vec::new())?,
                settings: profile.settings.as_ref().map(settings).unwrap_or_default(),
            })
        });
        InheritedSettings { project, profiles: profiles.collect() }
    }

    /// Returns a model's name, after a check that its provider is known.
    pub(crate) fn provider_model(&self, node: &Node, found: &mut Vec<Diagnostic>) -> Option<ModelName> {
        let model = match node.as_text()?.parse::<ModelName>() {
            Ok(model) => model,
            Err(error) => {
                found.push(Diagnostic::error(codes::BAD_MODEL, error.to_string()).at(&node.span));
                return None;
            }
        };
        let own = self.packages.program().manifest.providers.keys();
        let known: Vec<&str> = self.host.providers.iter().chain(own).map(String::as_str).collect();
        if !self.host.providers.is_empty() && !known.contains(&model.provider()) {
            found.push(
                Diagnostic::error(
                    codes::UNKNOWN_PROVIDER,
                    format!("unknown provider `{}`", model.provider()),
                )
                .at(&node.span)
                .did_you_mean(model.provider(), known.iter().copied())
                .help("to use your own endpoint, declare it under `providers` in the manifest"),
            );
            return None;
        }
        Some(model)
    }
}

/// Checks that the worker allows its own models.
pub(super) fn check_compatible(
    keys: &Node,
    names: &[ModelName],
    compatible: &[String],
    found: &mut Vec<Diagnostic>,
) {
    // A name that is none is an error of its own.
    let (Some(model), false) = (keys.get("model"), compatible.is_empty()) else { return };
    for name in names.iter().filter(|name| !compatible.iter().any(|glob| name.fits(glob))) {
        let place = keys.get("compatible_models").map(|node| &node.span);
        let mut error = Diagnostic::error(
            codes::INCOMPATIBLE_MODEL,
            format!("the model `{name}` matches none of `compatible_models`"),
        )
        .at(&model.span)
        .help("use a model that matches, or add this model to `compatible_models`");
        if let Some(place) = place {
            error = error.related("the allowed models", place);
        }
        found.push(error);
    }
}
