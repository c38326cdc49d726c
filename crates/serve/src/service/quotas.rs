//! The quotas of a service: the admission of runs, and the use of each quota.

use super::{Service, apart};
use crate::{
    disk::{OnDisk, size},
    error::ApiError,
    listing::Listing,
    meter::{Amounts, Meter},
    quotas::Quotas,
    runs::Room,
    token::Token,
};
use llm_do::Client;
use std::sync::Arc;

impl Service {
    pub(crate) fn quotas(&self) -> &Quotas {
        &self.0.quotas
    }

    /// Room for a run that this client starts.
    ///
    /// # Errors
    /// A quota of the client or of the program is used up, or the server shuts down.
    pub(super) async fn admit_run(&self, client: &Client) -> Result<Room, ApiError> {
        let quotas = self.quotas();
        quotas.admit_memory(0)?;
        if [&quotas.disk, &quotas.program_disk].into_iter().any(|meter| meter.has_limits()) {
            let (service, client) = (self.clone(), client.clone());
            apart(async move {
                let used = service.on_disk();
                // What a run will need is not known: it may begin while anything is left.
                service.quotas().disk.admit(&used.tokens, &client.name, 1)?;
                service.quotas().program_disk.admit(&used.programs, &client.program, 1)
            })
            .await?;
        }
        let of_program = quotas.program_runs.take(&client.program, 1)?;
        let room = self.0.runs.admit(&client.name)?;
        Ok(Room { of_program: Some(of_program), ..room })
    }

    /// The sizes of the folders of all runs of clients. Reads folders.
    fn on_disk(&self) -> OnDisk {
        self.0.disk.used(|| {
            let mut used = OnDisk::default();
            for program in self.0.programs.iter() {
                let folder = program.runs_dir().to_owned();
                for (id, folder) in Listing::ids(&[folder], None).unwrap_or_default() {
                    if let Some(run) = self.0.listing.get(&folder, &id, &self.0.owner)
                        && *run.program == *program.name().as_str()
                    {
                        let bytes = size(&folder.join(&id));
                        used.tokens.add(&run.client, bytes);
                        used.programs.add(&run.program, bytes);
                    }
                }
            }
            used
        })
    }

    /// Calls back with each quota and its use, as far as the token may see them.
    pub(super) fn each_quota(
        &self,
        token: &Token,
        mut each: impl FnMut(&Meter, &Amounts, &[Arc<str>], bool),
    ) {
        let quotas = self.quotas();
        let all = token.sees_all();
        let tokens: Vec<Arc<str>> = match all {
            true => self.0.tokens.all().map(|token| Arc::clone(token.name())).collect(),
            false => vec![Arc::clone(token.name())],
        };
        let programs: Vec<Arc<str>> =
            self.programs_of(token).map(|program| program.name().as_str().into()).collect();
        for meter in [&quotas.runs, &quotas.streams, &quotas.bodies, &quotas.mcp_sessions] {
            each(meter, &meter.used(), &tokens, all);
        }
        let [files, sizes] = self.0.uploads.amounts();
        each(&quotas.upload_files, &files, &tokens, all);
        each(&quotas.uploads, &sizes, &tokens, all);
        let on_disk = self.on_disk();
        each(&quotas.disk, &on_disk.tokens, &tokens, all);
        // A token that reads its own runs only learns nothing of those of others.
        if token.reads_all() {
            each(&quotas.program_runs, &quotas.program_runs.used(), &programs, false);
            each(&quotas.program_disk, &on_disk.programs, &programs, false);
        }
        if let (true, Some((meter, used))) = (all, quotas.memory()) {
            each(meter, &used, &[], true);
        }
    }
}
