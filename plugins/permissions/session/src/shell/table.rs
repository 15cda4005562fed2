//! Commands that only look, each with every option with which it does. What is not written here is not known.

/// What stands behind the options of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// Nothing.
    Nothing,
    /// Text.
    Text,
    /// Files that it reads.
    Files,
    /// Files and directories that it reads; the current directory where there are none.
    Places,
    /// What is searched for, and where.
    Pattern,
    /// One file at most: a second one would be written.
    One,
    /// A format that begins with `+`.
    Format,
    /// A program in the language of jq, and files.
    Filter,
}

/// A command with its operands and its options; see [`super::options::call`].
type Row = (&'static str, Operands, &'static str);

/// The row of a command.
pub(super) fn row(name: &str) -> Option<&'static Row> {
    LOOKS.iter().find(|(other, _, _)| *other == name)
}

/// The options of a command that changes just the files that it names.
pub(super) fn changes(name: &str) -> Option<&'static str> {
    CHANGES
        .iter()
        .find(|(other, _)| *other == name)
        .map(|(_, list)| *list)
}

use Operands::{Files, Filter, Format, Nothing, One, Pattern, Places, Text};

const SUM: &str = "-b -t -z --binary --text --tag --zero";
const GREP: &str = "-e:p -f:q -i -v -c -l -L -n -o -q -s -w -x -E -F -G -P -H -h -a -I -U -z -Z -y -b -T -r! -m:t \
    -A:t -B:t -C:t -# --regexp:p --file:q --ignore-case --invert-match --count --files-with-matches \
    --files-without-match --line-number --only-matching --quiet --silent --no-messages --word-regexp --line-regexp \
    --extended-regexp --fixed-strings --basic-regexp --perl-regexp --with-filename --no-filename --text --null \
    --null-data --byte-offset --max-count:t --after-context:t --before-context:t --context:t --color? --colour? \
    --recursive! --include:t --exclude:t --exclude-dir:t --binary-files:t --line-buffered --no-ignore-case";

const LOOKS: &[Row] = &[
    (
        "cat",
        Files,
        "-A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number --squeeze-blank \
        --show-tabs --show-nonprinting",
    ),
    (
        "head",
        Files,
        "-c:t -n:t -q -v -z -# --bytes:t --lines:t --quiet --silent --verbose",
    ),
    (
        "tail",
        Files,
        "-c:t -n:t -q -v -z -# --bytes:t --lines:t --quiet --silent --verbose",
    ),
    (
        "wc",
        Files,
        "-c -m -l -L -w --bytes --chars --lines --words --max-line-length",
    ),
    ("nl", Files, "-b:t -n:t -w:t -s:t -v:t -i:t -h:t -f:t -p"),
    ("tac", Files, "-r -s:t -b --separator:t"),
    ("rev", Files, ""),
    (
        "cut",
        Files,
        "-b:t -c:t -d:t -f:t -s -z -n --bytes:t --characters:t --delimiter:t --fields:t --complement \
        --only-delimited --output-delimiter:t",
    ),
    ("fold", Files, "-w:t -s -b --width:t --spaces --bytes"),
    ("paste", Files, "-d:t -s -z --delimiters:t --serial"),
    (
        "join",
        Files,
        "-t:t -1:t -2:t -a:t -v:t -o:t -e:t -j:t -i --header",
    ),
    (
        "comm",
        Files,
        "-1 -2 -3 -z --check-order --nocheck-order --total --output-delimiter:t",
    ),
    (
        "cmp",
        Files,
        "-s -l -b -n:t -i:t --silent --quiet --verbose --print-bytes --bytes:t",
    ),
    (
        "diff",
        Files,
        "-u -U:t -c -C:t -r! -q -s -i -w -b -B -y -N -a -E -Z -W:t -x:t -p -e -n --recursive! --brief \
        --unified? --color? --exclude:t --ignore-all-space --ignore-space-change --ignore-blank-lines \
        --ignore-case --side-by-side --suppress-common-lines --strip-trailing-cr --new-file --text --width:t \
        --report-identical-files",
    ),
    (
        "stat",
        Files,
        "-c:t -f -L -t --format:t --printf:t --file-system --dereference --terse",
    ),
    (
        "file",
        Files,
        "-b -i -L -h -k -N -0 --brief --mime --mime-type --mime-encoding --dereference \
        --no-dereference --keep-going --extension",
    ),
    (
        "realpath",
        Files,
        "-e -m -s -q -z -L -P --relative-to:r --relative-base:r --canonicalize-existing \
        --canonicalize-missing --no-symlinks --strip --quiet",
    ),
    (
        "readlink",
        Files,
        "-f -e -m -n -q -s -v -z --canonicalize --canonicalize-existing --canonicalize-missing \
        --no-newline",
    ),
    ("md5sum", Files, SUM),
    ("sha1sum", Files, SUM),
    ("sha224sum", Files, SUM),
    ("sha256sum", Files, SUM),
    ("sha384sum", Files, SUM),
    ("sha512sum", Files, SUM),
    ("cksum", Files, ""),
    ("sum", Files, ""),
    (
        "strings",
        Files,
        "-a -n:t -t:t -f -# --all --bytes:t --radix:t",
    ),
    ("hexdump", Files, "-b -c -C -d -o -x -v -n:t -s:t"),
    (
        "od",
        Files,
        "-A:t -t:t -N:t -j:t -w? -a -b -c -d -f -i -l -o -s -v -x --address-radix:t --format:t \
        --read-bytes:t --skip-bytes:t",
    ),
    (
        "column",
        Files,
        "-t -s:t -o:t -n -x -c:t -N:t -R:t -J --table --separator:t --output-separator:t --columns:t \
        --json",
    ),
    ("expand", Files, "-t:t -i --tabs:t --initial"),
    ("unexpand", Files, "-t:t -a --tabs:t --all --first-only"),
    (
        "sort",
        Files,
        "-n -r -u -k:t -t:t -f -b -d -g -h -i -M -R -V -z -s -c -C -m --numeric-sort --reverse --unique \
        --key:t --field-separator:t --ignore-case --ignore-leading-blanks --dictionary-order \
        --general-numeric-sort --human-numeric-sort --month-sort --version-sort --random-sort --stable \
        --zero-terminated --check? --merge",
    ),
    ("size", Files, ""),
    (
        "nm",
        Files,
        "-C -g -u -D -a -n -S --demangle --extern-only --undefined-only --dynamic --defined-only",
    ),
    (
        "uniq",
        One,
        "-c -d -D -u -i -z -f:t -s:t -w:t --count --repeated --unique --ignore-case --skip-fields:t \
        --skip-chars:t --check-chars:t --zero-terminated",
    ),
    ("xxd", One, "-l:t -s:t -c:t -g:t -p -u -b -e -i"),
    ("ls", Places, LIST),
    ("dir", Places, LIST),
    (
        "tree",
        Places,
        "-a -d -f -i -L:t -I:t -P:t -h -s -p -u -g -D -C -n -F -t -r -x -Q -N -q --dirsfirst \
        --noreport --gitignore --prune --filelimit:t --du --si --ignore-case --matchdirs",
    ),
    (
        "du",
        Places,
        "-a -h -s -c -k -m -b -x -l -S -0 -d:t -t:t --max-depth:t --summarize --human-readable \
        --apparent-size --all --total --one-file-system --si --threshold:t --exclude:t --bytes",
    ),
    (
        "df",
        Places,
        "-a -h -H -T -i -k -m -P -l --human-readable --print-type --inodes --total --local --output?",
    ),
    ("grep", Pattern, GREP),
    ("egrep", Pattern, GREP),
    ("fgrep", Pattern, GREP),
    (
        "rg",
        Pattern,
        "-e:p -f:q -i -s -S -v -c -l -n -N -o -q -w -x -F -H -I -U -a -P -p -0 -. -m:t -A:t -B:t -C:t \
        -g:t -t:t -T:t -d:t -r:t -M:t -j:t -u --regexp:p --file:q --files^ --type-list^ --ignore-case \
        --case-sensitive --smart-case --invert-match --count --count-matches --files-with-matches \
        --files-without-match --line-number --no-line-number --only-matching --quiet --word-regexp --line-regexp \
        --fixed-strings --with-filename --no-filename --multiline --multiline-dotall --text --pcre2 --pretty --null \
        --hidden --no-hidden --no-ignore --no-ignore-vcs --unrestricted --heading --no-heading --column --vimgrep \
        --json --stats --trim --no-messages --no-config --max-count:t --after-context:t --before-context:t \
        --context:t --glob:t --iglob:t --type:t --type-not:t --max-depth:t --replace:t --max-columns:t --color:t \
        --colors:t --sort:t --sortr:t --threads:t --max-filesize:t --binary --crlf --passthru",
    ),
    (
        "jq",
        Filter,
        "-r -c -n -s -S -e -M -C -j -a -R --raw-output --compact-output --null-input --slurp --sort-keys \
        --exit-status --monochrome-output --color-output --join-output --ascii-output --raw-input --tab",
    ),
    (
        "date",
        Format,
        "-u -R -I -d:t -r:r --utc --universal --rfc-email --rfc-3339:t --iso-8601? --date:t \
        --reference:r",
    ),
    (
        "tr",
        Text,
        "-c -C -d -s -t --complement --delete --squeeze-repeats --truncate-set1",
    ),
    (
        "seq",
        Text,
        "-s:t -w -f:t --separator:t --equal-width --format:t",
    ),
    ("sleep", Text, ""),
    ("expr", Text, ""),
    ("basename", Text, "-a -s:t -z --multiple --suffix:t --zero"),
    ("dirname", Text, "-z --zero"),
    ("which", Text, "-a"),
    ("whereis", Text, "-b -m -s"),
    (
        "id",
        Text,
        "-u -g -G -n -r -z --user --group --groups --name --real",
    ),
    ("groups", Text, ""),
    ("getconf", Text, ""),
    ("printenv", Text, "-0 --null"),
    (
        "ps",
        Text,
        "-e -f -a -u -x -A -l -j -w -H -T -L -F -# \
        -o:t -p:t -C:t --forest --no-headers --sort:t --pid:t --ppid:t --headers",
    ),
    ("pgrep", Text, "-f -l -a -x -n -o -c -v -i -u:t -P:t -d:t"),
    ("hostname", Nothing, ""),
    ("whoami", Nothing, ""),
    (
        "uname",
        Nothing,
        "-a -s -n -r -v -m -p -i -o --all --kernel-name --kernel-release \
        --machine --operating-system",
    ),
    ("nproc", Nothing, "--all"),
    ("arch", Nothing, ""),
    ("uptime", Nothing, "-p -s --pretty --since"),
    (
        "free",
        Nothing,
        "-b -k -m -g -h -t -w --human --mega --giga --total --wide",
    ),
    ("locale", Nothing, "-a"),
    ("env", Nothing, ""),
    ("true", Text, ""),
    ("false", Text, ""),
    ("pwd", Nothing, "-L -P"),
];

const LIST: &str = "-a -A -b -B -c -C -d -f -F -g -G -h -H -i -k -l -L -m -n -N -o -p -q -Q -r -R -s -S -t -u -U -v -x \
    -X -Z -1 -I:t -T:t -w:t --all --almost-all --author --classify? --color? --directory --file-type --format:t \
    --full-time --group-directories-first --no-group --human-readable --si --hide:t --indicator-style:t --inode \
    --ignore:t --kibibytes --dereference --numeric-uid-gid --literal --quote-name --reverse --recursive --size \
    --sort:t --time:t --time-style:t --width:t --zero";

const CHANGES: &[(&str, &str)] = &[
    ("mkdir", "-p -v --parents --verbose"),
    (
        "touch",
        "-a -c -m -h -r:r --no-create --no-dereference --reference:r",
    ),
    (
        "cp",
        "-r! -R! -a! -f -v -p -n -i -u -T -t:w --recursive! --archive! --force --verbose --no-clobber --interactive \
        --update --no-target-directory --target-directory:w",
    ),
    (
        "mv",
        "-f -v -n -i -u -T -t:w --force --verbose --no-clobber --interactive --update --no-target-directory \
        --target-directory:w",
    ),
    ("tee", "-a -i --append --ignore-interrupts"),
    (
        "rmdir",
        "-p -v --parents --verbose --ignore-fail-on-non-empty",
    ),
    ("rm", "-f -v -i -I -d --force --verbose --dir"),
    ("unlink", ""),
    // The other end of a link is what one writes through it.
    (
        "ln",
        "-s -f -n -v -T --symbolic --force --no-dereference --verbose --no-target-directory",
    ),
];
