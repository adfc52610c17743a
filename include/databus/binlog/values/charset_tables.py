"""Characters that the servers' single-byte and East Asian character sets map otherwise than Python's codecs.

Read from MySQL 8.0.31 and MariaDB 10.11.19 (both agree) by converting every one-, two- and three-byte code to UTF-32
and comparing with the codec.
"""

from __future__ import annotations

UNDEFINED = "\uffff"
"""Stands for a byte that the character set does not define."""

SINGLE_BYTE: dict[str, tuple[str, str, str]] = {
    "armscii8": (
        "latin-1",
        (
            "a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2"
            "d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
        ),
        (
            "\u2741\xa7\u0589)(\xbb\xab\u2014.\u055d,-\u055f\u2026\u055c\u055b\u055e\u0531\u0561\u0532\u0562"
            "\u0533\u0563\u0534\u0564\u0535\u0565\u0536\u0566\u0537\u0567\u0538\u0568\u0539\u0569\u053a\u056a"
            "\u053b\u056b\u053c\u056c\u053d\u056d\u053e\u056e\u053f\u056f\u0540\u0570\u0541\u0571\u0542\u0572"
            "\u0543\u0573\u0544\u0574\u0545\u0575\u0546\u0576\u0547\u0577\u0548\u0578\u0549\u0579\u054a\u057a"
            "\u054b\u057b\u054c\u057c\u054d\u057d\u054e\u057e\u054f\u057f\u0550\u0580\u0551\u0581\u0552\u0582"
            "\u0553\u0583\u0554\u0584\u0555\u0585\u0556\u0586\u2019'"
        ),
    ),
    "ascii": (
        "ascii",
        "",
        "",
    ),
    "cp1250": (
        "cp1250",
        "",
        "",
    ),
    "cp1251": (
        "cp1251",
        "",
        "",
    ),
    "cp1256": (
        "cp1256",
        "8a8f989a9faac0ff",
        "\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff",
    ),
    "cp1257": (
        "cp1257",
        "",
        "",
    ),
    "cp850": (
        "cp850",
        "",
        "",
    ),
    "cp852": (
        "cp852",
        "",
        "",
    ),
    "cp866": (
        "cp866",
        "fcfd",
        "\u207f\xb2",
    ),
    "dec8": (
        "latin-1",
        "a4a6a8acadaeafb4b8bed0d7dddef0f7fdfeff",
        (
            "\uffff\uffff\xa4\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\u0152\u0178\uffff\uffff\u0153\xff"
            "\uffff\uffff"
        ),
    ),
    "geostd8": (
        "latin-1",
        (
            "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1"
            "d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
        ),
        (
            "\u20ac\uffff\u201a\uffff\u201e\u2026\u2020\u2021\uffff\u2030\uffff\u2039\uffff\uffff\uffff\uffff"
            "\uffff\u2018\u2019\u201c\u201d\u2022\u2013\u2014\uffff\uffff\uffff\u203a\uffff\uffff\uffff\uffff"
            "\u10d0\u10d1\u10d2\u10d3\u10d4\u10d5\u10d6\u10f1\u10d7\u10d8\u10d9\u10da\u10db\u10dc\u10f2\u10dd"
            "\u10de\u10df\u10e0\u10e1\u10e2\u10f3\u10e3\u10e4\u10e5\u10e6\u10e7\u10e8\u10e9\u10ea\u10eb\u10ec"
            "\u10ed\u10ee\u10f4\u10ef\u10f0\u10f5\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff"
            "\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\u2116\uffff\uffff"
        ),
    ),
    "greek": (
        "iso8859-7",
        "a1a2a4a5aa",
        "\u02bd\u02bc\uffff\uffff\uffff",
    ),
    "hebrew": (
        "iso8859-8",
        "af",
        "\u203e",
    ),
    "hp8": (
        "hp_roman8",
        "",
        "",
    ),
    "keybcs2": (
        "latin-1",
        (
            "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1"
            "b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3"
            "e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
        ),
        (
            "\u010c\xfc\xe9\u010f\xe4\u010e\u0164\u010d\u011b\u011a\u0139\xcd\u013e\u013a\xc4\xc1\xc9\u017e\u017d"
            "\xf4\xf6\xd3\u016f\xda\xfd\xd6\xdc\u0160\u013d\xdd\u0158\u0165\xe1\xed\xf3\xfa\u0148\u0147\u016e\xd4"
            "\u0161\u0159\u0155\u0154\xbc\xa1\xab\xbb\u2591\u2592\u2593\u2502\u2524\u2561\u2562\u2556\u2555\u2563"
            "\u2551\u2557\u255d\u255c\u255b\u2510\u2514\u2534\u252c\u251c\u2500\u253c\u255e\u255f\u255a\u2554"
            "\u2569\u2566\u2560\u2550\u256c\u2567\u2568\u2564\u2565\u2559\u2558\u2552\u2553\u256b\u256a\u2518"
            "\u250c\u2588\u2584\u258c\u2590\u2580\u03b1\xdf\u0393\u03c0\u03a3\u03c3\xb5\u03c4\u03a6\u0398\u03a9"
            "\u03b4\u221e\u03c6\u03b5\u2229\u2261\xb1\u2265\u2264\u2320\u2321\xf7\u2248\xb0\u2219\xb7\u221a\u207f"
            "\xb2\u25a0\xa0"
        ),
    ),
    "koi8r": (
        "koi8-r",
        "",
        "",
    ),
    "koi8u": (
        "koi8-u",
        "95",
        "\u2022",
    ),
    "latin1": (
        "cp1252",
        "818d8f909d",
        "\x81\x8d\x8f\x90\x9d",
    ),
    "latin2": (
        "iso8859-2",
        "",
        "",
    ),
    "latin5": (
        "iso8859-9",
        "",
        "",
    ),
    "latin7": (
        "iso8859-13",
        "",
        "",
    ),
    "macce": (
        "mac_latin2",
        "",
        "",
    ),
    "macroman": (
        "mac_roman",
        "",
        "",
    ),
    "swe7": (
        "ascii",
        "405b5c5d5e607b7c7d7e7f",
        "\xc9\xc4\xd6\xc5\xdc\xe9\xe4\xf6\xe5\xfc\uffff",
    ),
    "tis620": (
        "tis-620",
        "a0dbdcdddefcfdfeff",
        "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd",
    ),
}
"""Character set → Python codec, the bytes it gets wrong (hexadecimal), and the right character for each."""

MULTI_BYTE: dict[str, tuple[str, str, str]] = {
    "big5": (
        "big5",
        "a15a a1c3 a1c5 a1fe a240 a2cc a2ce f9d6 f9d7 f9d8 f9d9 f9da f9db f9dc",
        "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\u7881\u92b9\u88cf\u58bb\u6052\u7ca7\u5afa",
    ),
    "eucjpms": (
        "euc_jp",
        (
            "8fa2b7 8fa2c3 8ff3f3 8ff3f4 8ff3f5 8ff3f6 8ff3f7 8ff3f8 8ff3f9 8ff3fa 8ff3fb 8ff3fc 8ff3fd 8ff3fe 8f"
            "f4a1 8ff4a2 8ff4a3 8ff4a4 8ff4a5 8ff4a6 8ff4a7 8ff4a8 8ff4a9 8ff4aa 8ff4ab 8ff4ac 8ff4ad 8ff4ae 8ff4"
            "af 8ff4b0 8ff4b1 8ff4b2 8ff4b3 8ff4b4 8ff4b5 8ff4b6 8ff4b7 8ff4b8 8ff4b9 8ff4ba 8ff4bb 8ff4bc 8ff4bd"
            " 8ff4be 8ff4bf 8ff4c0 8ff4c1 8ff4c2 8ff4c3 8ff4c4 8ff4c5 8ff4c6 8ff4c7 8ff4c8 8ff4c9 8ff4ca 8ff4cb 8"
            "ff4cc 8ff4cd 8ff4ce 8ff4cf 8ff4d0 8ff4d1 8ff4d2 8ff4d3 8ff4d4 8ff4d5 8ff4d6 8ff4d7 8ff4d8 8ff4d9 8ff"
            "4da 8ff4db 8ff4dc 8ff4dd 8ff4de 8ff4df 8ff4e0 8ff4e1 8ff4e2 8ff4e3 8ff4e4 8ff4e5 8ff4e6 8ff4e7 8ff4e"
            "8 8ff4e9 8ff4ea 8ff4eb 8ff4ec 8ff4ed 8ff4ee 8ff4ef 8ff4f0 8ff4f1 8ff4f2 8ff4f3 8ff4f4 8ff4f5 8ff4f6 "
            "8ff4f7 8ff4f8 8ff4f9 8ff4fa 8ff4fb 8ff4fc 8ff4fd 8ff4fe a1c1 a1c2 a1dd a1f1 a1f2 a2cc ada1 ada2 ada3"
            " ada4 ada5 ada6 ada7 ada8 ada9 adaa adab adac adad adae adaf adb0 adb1 adb2 adb3 adb4 adb5 adb6 adb7"
            " adb8 adb9 adba adbb adbc adbd adbe adc0 adc1 adc2 adc3 adc4 adc5 adc6 adc7 adc8 adc9 adca adcb adcc"
            " adcd adce adcf add0 add1 add2 add3 add4 add5 add6 addf ade0 ade1 ade2 ade3 ade4 ade5 ade6 ade7 ade8"
            " ade9 adea adeb adec aded adee adef adf0 adf1 adf2 adf3 adf4 adf5 adf6 adf7 adf8 adf9 adfa adfb adfc"
        ),
        (
            "\uff5e\uffe4\u2170\u2171\u2172\u2173\u2174\u2175\u2176\u2177\u2178\u2179\u2160\u2161\u2162\u2163"
            "\u2164\u2165\u2166\u2167\u2168\u2169\uff07\uff02\u3231\u2116\u2121\u70bb\u4efc\u50f4\u51ec\u5307"
            "\u5324\ufa0e\u548a\u5759\ufa0f\ufa10\u589e\u5bec\u5cf5\u5d53\ufa11\u5fb7\u6085\u6120\u654e\u663b"
            "\u6665\ufa12\uf929\u6801\ufa13\ufa14\u6a6b\u6ae2\u6df8\u6df2\u7028\ufa15\ufa16\u7501\u7682\u769e"
            "\ufa17\u7930\ufa18\ufa19\ufa1a\ufa1b\u7ae7\ufa1c\ufa1d\u7da0\u7dd6\ufa1e\u8362\ufa1f\u85b0\ufa20"
            "\ufa21\u8807\ufa22\u8b7f\u8cf4\u8d76\ufa23\ufa24\ufa25\u90de\ufa26\u9115\ufa27\ufa28\u9592\uf9dc"
            "\ufa29\u973b\u974d\u9751\ufa2a\ufa2b\ufa2c\u999e\u9ad9\u9b72\ufa2d\u9ed1\uff5e\u2225\uff0d\uffe0"
            "\uffe1\uffe2\u2460\u2461\u2462\u2463\u2464\u2465\u2466\u2467\u2468\u2469\u246a\u246b\u246c\u246d"
            "\u246e\u246f\u2470\u2471\u2472\u2473\u2160\u2161\u2162\u2163\u2164\u2165\u2166\u2167\u2168\u2169"
            "\u3349\u3314\u3322\u334d\u3318\u3327\u3303\u3336\u3351\u3357\u330d\u3326\u3323\u332b\u334a\u333b"
            "\u339c\u339d\u339e\u338e\u338f\u33c4\u33a1\u337b\u301d\u301f\u2116\u33cd\u2121\u32a4\u32a5\u32a6"
            "\u32a7\u32a8\u3231\u3232\u3239\u337e\u337d\u337c\u2252\u2261\u222b\u222e\u2211\u221a\u22a5\u2220"
            "\u221f\u22bf\u2235\u2229\u222a"
        ),
    ),
    "sjis": (
        "shift_jis",
        "815f",
        "\x5c",
    ),
    "ujis": (
        "euc_jp",
        "a1c0",
        "\x5c",
    ),
}
"""The same for multi-byte sets, codes separated by spaces; user-defined rows of ujis and eucjpms follow a rule."""
