use bezel_rpc_macros::service;

#[service("models", version = "1.0")]
pub trait Models {
    const LIMIT: u32;
    fn name(&self) -> String;
    fn state(&self, index: u32) -> State<String>;
    async fn without_context(&self, name: String);
    async fn borrowed(&self, cx: &Context, name: &str);
    async fn pattern(&self, cx: &Context, (a, b): (u32, u32));
    async fn generic<T: Send>(&self, cx: &Context, value: T);
    async fn with_body(&self, cx: &Context) {}
    async fn exclusive(&mut self, cx: &Context);
    #[scope(root)]
    async fn scoped(&self, cx: &Context);
}

fn main() {}
