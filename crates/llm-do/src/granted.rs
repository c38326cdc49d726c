//! The third phase of opening a program: choosing its models, and granting everything that it asks for.

use crate::{
    grant::Grant,
    loaded::{Effects, Loaded, apply},
    missing,
    model_choice::{self, DetectedModel},
    problem::Problem,
    settings::RunOptions,
};
use llm_do_core::{
    model::{ModelName, Models},
    worker::ModelChoice,
};
use llm_do_program::{Diagnostic, Diagnostics};
use std::sync::Arc;

/// The source of a session's models.
#[derive(Clone)]
pub enum ModelSource {
    /// The configured providers.
    Providers,
    /// The models of the host, whatever the workers name. Nothing is sent to a provider, so none needs a grant or a
    /// key.
    Given {
        /// The models.
        models: Arc<dyn Models>,
        /// The model of workers that name none.
        default: Option<ModelName>,
    },
}

/// A program that has everything that it asks for. [`Granted::open`] opens its models.
pub struct Granted {
    pub(crate) loaded: Loaded,
    pub(crate) options: RunOptions,
    /// The grants of the options, and those that the grantor added.
    pub(crate) grants: Vec<Grant>,
    pub(crate) choice: ModelChoice,
    pub(crate) detected: Option<DetectedModel>,
    pub(crate) source: ModelSource,
}

impl Loaded {
    /// Chooses the models, asks the grantor for grants that `options` lack, and inspects the code of the program's
    /// tools.
    ///
    /// # Errors
    /// No model is named, a grant is missing, code of the program can't be used, or a rule names a tool that does not
    /// exist.
    pub fn grant(&self, options: RunOptions, source: ModelSource) -> Result<Granted, Problem> {
        self.grant_beyond(options, &[], source)
    }

    /// Grants like [`Loaded::grant`], with `held` grants from earlier, which are not part of the options.
    pub(crate) fn grant_beyond(
        &self,
        mut options: RunOptions,
        held: &[Grant],
        source: ModelSource,
    ) -> Result<Granted, Problem> {
        let machinery = &*self.machinery;
        options.model = options.model.map(|name| machinery.recorded.settled(name));
        let (defaults, fallback) = match &source {
            ModelSource::Given { default, .. } => (default.iter().cloned().collect(), Vec::new()),
            ModelSource::Providers => {
                let user = &machinery.user;
                let defaults = model_choice::defaults(&self.program, &machinery.environment, user)?;
                (defaults, user.fallback.clone())
            }
        };
        let (choice, detected) = model_choice::choose(
            &self.workers,
            ModelChoice { forced: options.model.clone(), defaults, fallback },
            &machinery.providers,
            machinery.fallback_model.clone(),
        )?;
        let mut grants = options.grants.clone();
        grants.extend(held.iter().filter(|held| !options.grants.contains(held)).cloned());
        apply(&grants, &machinery.confiner, &machinery.python)?;
        let mut missing = missing::places(&self.program, &grants);
        missing.extend(missing::packages(&self.workers, &machinery.toolsets, &machinery.python));
        missing.extend(missing::interpreter(&self.workers, &machinery.toolsets, &machinery.python));
        missing.extend(missing::confinement(
            &self.workers,
            &machinery.toolsets,
            &machinery.confiner,
            &grants,
        ));
        if machinery.effects != Effects::WithoutServers {
            missing.extend(missing::toolsets(&self.workers, &machinery.toolsets, &grants));
        }
        if matches!(source, ModelSource::Providers) {
            missing.extend(missing::endpoints(&machinery.declared, &self.workers, &choice, &grants));
            let operators = model_choice::of_operator(&options, &machinery.environment, &machinery.user);
            missing.extend(missing::weights(&self.workers, &choice, &operators, &grants));
        }
        if !missing.is_empty() {
            grants.extend(missing::obtain(&*machinery.grantor, &self.identity, missing)?);
            apply(&grants, &machinery.confiner, &machinery.python)?;
        }
        if machinery.effects == Effects::Allowed {
            missing::variables(&self.workers, &machinery.toolsets, &machinery.environment)?;
        }
        self.program.check_code().map_err(Problem::Program)?;
        // Only now is everything there that reading Python code needs.
        let rules = self.program.check_rules(&options.rules);
        if rules.iter().any(Diagnostic::is_error) {
            return Err(Problem::Program(Diagnostics(rules)));
        }
        let mut loaded = self.clone();
        loaded.warnings = self.warnings.iter().cloned().chain(rules).collect();
        Ok(Granted { loaded, options, grants, choice, detected, source })
    }
}
