//! Programs whose options for secrets have names that tell nothing.

/// What of an option's value is the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// All of it.
    Whole,
    /// What stands behind this character; nothing where it is missing.
    Behind(char),
    /// What stands behind a colon; all of it where there is none.
    PairOrWhole,
    /// All of it where it holds an equals sign: it is the name of a file otherwise.
    Cookie,
}

/// One program, or several that take the same options.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) names: &'static [&'static str],
    /// Letters of options, each with the shape of its value.
    pub(super) letters: &'static [(char, Shape)],
    /// Names of longer options.
    pub(super) long: &'static [(&'static str, Shape)],
    /// Whether the value must stand in the same word as the letter.
    pub(super) attached: bool,
    /// Whether several letters may stand in one word.
    pub(super) clusters: bool,
    /// Other letters that take a value, behind which no more letters stand in a word. Programs that share an entry may differ;
    /// what is a letter by itself to one of them is not among these.
    pub(super) valued: &'static str,
    /// The word that must stand among the arguments, where the letter means something else otherwise.
    pub(super) only_with: Option<&'static str>,
}

const PLAIN: Tool = Tool {
    names: &[],
    letters: &[],
    long: &[],
    attached: false,
    clusters: false,
    valued: "",
    only_with: None,
};

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        names: &["curl", "curlie"],
        letters: &[
            ('u', Shape::Behind(':')),
            ('U', Shape::Behind(':')),
            ('E', Shape::Behind(':')),
            ('b', Shape::Cookie),
        ],
        long: &[
            ("user", Shape::Behind(':')),
            ("proxy-user", Shape::Behind(':')),
            ("cert", Shape::Behind(':')),
            ("proxy-cert", Shape::Behind(':')),
            ("oauth2-bearer", Shape::Whole),
        ],
        clusters: true,
        valued: "AcCdDeFhHKmoPQrtTwxXyYz",
        ..PLAIN
    },
    Tool {
        names: &["http", "https", "xh", "xhs"],
        letters: &[('a', Shape::PairOrWhole)],
        long: &[("auth", Shape::PairOrWhole)],
        ..PLAIN
    },
    Tool {
        names: &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlimport",
            "mysqlshow",
            "mysqlcheck",
            "mariadb",
            "mariadb-dump",
            "mariadb-admin",
        ],
        letters: &[('p', Shape::Whole)],
        attached: true,
        clusters: true,
        valued: "DehPSu",
        ..PLAIN
    },
    Tool {
        names: &["7z", "7za", "7zr", "7zz"],
        letters: &[('p', Shape::Whole)],
        attached: true,
        ..PLAIN
    },
    Tool {
        names: &["sshpass"],
        letters: &[('p', Shape::Whole)],
        clusters: true,
        valued: "fdP",
        ..PLAIN
    },
    Tool {
        names: &[
            "mongo",
            "mongosh",
            "mongodump",
            "mongorestore",
            "rabbitmqadmin",
        ],
        letters: &[('p', Shape::Whole)],
        ..PLAIN
    },
    Tool {
        names: &[
            "docker", "podman", "buildah", "skopeo", "nerdctl", "helm", "az", "oc",
        ],
        letters: &[('p', Shape::Whole)],
        only_with: Some("login"),
        ..PLAIN
    },
    Tool {
        names: &["redis-cli", "valkey-cli"],
        letters: &[('a', Shape::Whole)],
        ..PLAIN
    },
    Tool {
        names: &[
            "ldapsearch",
            "ldapmodify",
            "ldapadd",
            "ldapdelete",
            "ldapwhoami",
            "ldappasswd",
        ],
        letters: &[('w', Shape::Whole)],
        clusters: true,
        valued: "DHhpbslzTfFoOURXYPdeEy",
        ..PLAIN
    },
    Tool {
        names: &["smbclient", "rpcclient"],
        letters: &[('U', Shape::Behind('%'))],
        clusters: true,
        valued: "RmdslnOILpTDcbtMiAW",
        long: &[("user", Shape::Behind('%'))],
        ..PLAIN
    },
    Tool {
        names: &["zip"],
        letters: &[('P', Shape::Whole)],
        clusters: true,
        valued: "binOstx",
        ..PLAIN
    },
    Tool {
        names: &["unzip"],
        letters: &[('P', Shape::Whole)],
        clusters: true,
        valued: "dxIO",
        ..PLAIN
    },
    Tool {
        names: &["ipmitool"],
        letters: &[('P', Shape::Whole)],
        clusters: true,
        valued: "IHpUfSdeCkyKLAtTmzlobBNROD",
        ..PLAIN
    },
    Tool {
        names: &["sqlcmd", "bcp"],
        letters: &[('P', Shape::Whole)],
        ..PLAIN
    },
    Tool {
        names: &["lftp"],
        letters: &[('u', Shape::Behind(','))],
        clusters: true,
        valued: "epfcs",
        long: &[("user", Shape::Behind(','))],
        ..PLAIN
    },
    Tool {
        names: &["ssh-keygen"],
        letters: &[('N', Shape::Whole), ('P', Shape::Whole)],
        clusters: true,
        valued: "CDEFIMORVYZabfmnrstwz",
        ..PLAIN
    },
    Tool {
        names: &["keytool", "jarsigner"],
        long: &[
            ("storepass", Shape::Whole),
            ("keypass", Shape::Whole),
            ("srcstorepass", Shape::Whole),
            ("srckeypass", Shape::Whole),
            ("deststorepass", Shape::Whole),
            ("destkeypass", Shape::Whole),
            ("new", Shape::Whole),
        ],
        ..PLAIN
    },
    Tool {
        names: &["openssl"],
        long: &[
            ("passin", Shape::Whole),
            ("passout", Shape::Whole),
            ("k", Shape::Whole),
            ("K", Shape::Whole),
        ],
        ..PLAIN
    },
];

impl Tool {
    /// Whether it is called that.
    pub(super) fn is_called(&self, name: &str) -> bool {
        let base = name.rsplit('/').next().unwrap_or(name);
        self.names.contains(&base)
    }

    /// The shape of the value of a longer option.
    pub(super) fn long_shape(&self, name: &str) -> Option<Shape> {
        let found = self.long.iter().find(|(long, _)| *long == name);
        found.map(|(_, shape)| *shape)
    }

    /// The shape of the value of a letter.
    pub(super) fn shape(&self, letter: char) -> Option<Shape> {
        let found = self.letters.iter().find(|(known, _)| *known == letter);
        found.map(|(_, shape)| *shape)
    }
}
