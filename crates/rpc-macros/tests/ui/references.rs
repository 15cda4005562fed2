use bezel_rpc_macros::{reference, service};

#[reference("job", version = "1.0")]
pub trait WithId {}

#[reference]
pub trait Generic<T> {}

#[reference]
pub trait Super: Clone {}

#[reference]
pub trait Job {
    const LIMIT: u32;
    fn name(&self) -> String;
    async fn without_context(&self) -> u32;
    async fn generic<T>(&self, cx: &Context, value: T);
    async fn new(&self, cx: &Context);
    #[scope]
    async fn without_scope(&self, cx: &Context);
    #[scope(read, admin)]
    async fn two_scopes(&self, cx: &Context);
}

#[reference]
pub trait Taken {
    async fn completion(&self, cx: &Context);
}

#[service("jobs", version = "1.0")]
pub trait Jobs {
    async fn adopt(&self, cx: &Context, job: Reference<JobClient>);
    async fn adopt_some(&self, cx: &Context, jobs: Vec<Reference<JobClient>>);
    async fn all(&self, cx: &Context) -> Vec<Reference<JobClient>>;
    async fn named(&self, cx: &Context) -> Result<(String, Reference<JobClient>), Error>;
    async fn doubled(&self, cx: &Context) -> Reference<Reference<JobClient>>;
    async fn failing(&self, cx: &Context) -> Result<(), Reference<JobClient>>;
    fn current(&self) -> Reference<JobClient>;
    fn shown(&self) -> State<Reference<JobClient>>;
    async fn state(&self, cx: &Context) -> State<u32>;
}

fn main() {}
