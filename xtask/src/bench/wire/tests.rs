//! What the measuring program prints becomes figures.

use super::parse;

#[test]
fn each_round_is_compared_with_its_own_reference_and_the_middle_ratio_judges() {
    let (figures, absent) = parse(
        r#"{"figures":[
            {"name":"a call","unit":"µs","ours":[10.0,40.0,12.0],
             "reference":{"name":"R2","rounds":[10.0,20.0,12.0]},"target":{"at_most_times":1.25}},
            {"name":"held","unit":"B","ours":[9.0],"reference":null,"target":{"at_most":8.0}},
            {"name":"rate","unit":"","ours":[5.0],"reference":null,"target":"shown"}
        ],"absent":["NATS"]}"#,
    )
    .expect("a document");
    assert_eq!(absent, ["NATS"]);
    let judged: Vec<_> = figures
        .iter()
        .map(|figure| (figure.ours, figure.limit_or_peer, figure.ratio, figure.met))
        .collect();
    assert_eq!(
        judged,
        [
            (12.0, Some(12.0), Some(1.0), Some(true)),
            (9.0, None, None, Some(false)),
            (5.0, None, None, None),
        ]
    );
    assert!(
        parse(r#"{"figures":[{"name":"a","unit":"","ours":[],"target":"shown"}],"absent":[]}"#)
            .is_err()
    );
    assert!(parse("nothing").is_err());
}
