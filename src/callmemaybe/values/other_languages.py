"""Tells a request in a language that is not read from one in a language that is.

A language is known by its commonest words, and by those of everyday requests; letters of another script tell it, too. What
is quoted counts for nothing ("translate 'missä on asema' into English"), nor do names: only where a few words of one language
stand, and hardly any of those that are read, is a request said to be in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from callmemaybe.values.language import common_words

#: How the sentence begins that says why nothing is called.
SEEMS = "the request seems to be in "
#: The fewest words of a language in a request, and their least share of all its words.
_LEAST_WORDS, _LEAST_SHARE = 2, 0.25
#: Of a long request only its beginning is looked at.
_MOST_TEXT = 4000
_QUOTED = re.compile(
    r"\"[^\"]*\"|“[^”]*”|«[^»]*»|„[^“”]*[“”]|`[^`]*`|「[^」]*」|(?<!\w)['‘][^'’]*['’](?!\w)|\S*[@/\\_]\S*"
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LANGUAGES: Mapping[str, str] = {
    "Italian": """il lo gli della dello dei degli delle nel nella alla allo dal dalla sul sulla che chi cosa quale quanto quando dove
        come è sono ho hai vorrei voglio puoi per con una uno un di e la le mi ti ci si non più questo questa domani oggi ieri
        accendi spegni imposta mostrami mostra trova cerca metti fammi dimmi prenota invia manda luce luci alle ore minuti mio mia
        meteo tempo prossimo prossima tra fra anche""",
    "Portuguese": """o os um uma uns da do das dos na no nas nos em com por para que quem qual quais quanto quando onde como é são
        está eu você meu minha não mais este esta isso amanhã hoje ontem quero queria pode posso preciso ligue desligue mostre
        procure encontre coloque toque reserve envie ao à às pela pelo e de me luz luzes horas minutos próximo próxima fazer""",
    "Dutch": """het een en van ik je jij u de dat die dit niet met voor op te zijn is aan er om ook naar bij uit hoe wat waar wanneer
        welke wie kan kun wil zou moet mijn jouw zet doe maak geef toon zoek vind speel stuur boek stel morgen vandaag gisteren
        lamp lampen licht uur minuten volgende vanavond alsjeblieft graag""",
    "Swedish": """och att det som en ett den på för med av till är jag du vi mig min mitt mina inte vad var när hur vilken vilket kan
        vill ska skulle finns om från tänd släck sätt spela visa hitta sök skicka boka ställ stäng öppna imorgon idag igår ljuset
        lampan klockan minuter nästa tack i""",
    "Danish or Norwegian": """og at det som en et den på for med av af til er jeg du vi meg mig min mitt mit mine ikke hva hvad hvor når
        hvordan hvilken kan vil skal finnes findes om fra tenn tænd slå sluk skru spill spil vis finn find søk søg send bestill bestil
        åpne åbn lukk luk morgen dag går lyset klokken minutter neste næste takk tak i""",
    "Finnish": """ja on ei se että mikä mitä missä milloin kuinka miten kuka minun minä sinä me te he tämä tuo olla ovat haluan voitko
        voisitko voinko laita sytytä sammuta soita näytä etsi lähetä varaa aseta avaa sulje huomenna tänään eilen valot valo kello
        minuuttia seuraava kiitos paljonko onko myös mutta kun kanssa varten keittiön olohuoneen""",
    "Polish": """i w na z do nie się jest że co jak gdzie kiedy kto jaki jaka jakie ile czy dla od po za przy mój moja moje mnie mi chcę
        proszę możesz włącz wyłącz ustaw pokaż znajdź zagraj wyślij zarezerwuj otwórz zamknij jutro dziś dzisiaj wczoraj światło
        godzinę minut następny oraz lub""",
    "Czech or Slovak": """a v na se je že co jak kde kdy kdo jaký jaká jaké kolik pro od po za při můj moje mi chci prosím můžeš můžete
        zapni vypni rozsviť zhasni nastav ukaž najdi přehraj pošli rezervuj otevři zavři zítra dnes včera světlo hodin minut další
        nebo ako čo kde kedy koľko zajtra zapnúť svetlo""",
    "Hungarian": """a az és hogy nem van ez egy mi mit hol mikor hogyan ki melyik mennyi kell lehet szeretnék kérlek tudsz kapcsold
        kapcsolja állítsd mutasd keresd keress játssz küldd foglalj nyisd zárd holnap ma tegnap villanyt lámpát órakor perc percre
        következő nekem vagy is be ki fel le""",
    "Romanian": """și în la de pe cu din că nu este sunt ce cine unde când cum care cât pentru mai un o lui mea meu îmi mă vreau aș
        poți te rog aprinde stinge setează arată găsește caută pune redă trimite rezervă deschide închide mâine azi astăzi ieri
        lumina ora minute următorul sau""",
    "Turkish": """ve bir bu da de için ile ne nerede ne zaman nasıl kim hangi kaç mı mi mu mü var yok benim bana beni senin istiyorum
        lütfen misin mısın aç kapat kapa ayarla göster bul ara çal gönder yap et yarın bugün dün ışık ışığı ışıkları saat dakika
        sonraki hava durumu olarak kadar veya""",
    "Indonesian or Malay": """yang dan di ke dari untuk dengan ini itu tidak adalah apa siapa di mana kapan bagaimana berapa saya aku kamu
        anda bisa boleh mau ingin tolong nyalakan matikan atur tampilkan cari putar kirim pesan buka tutup besok hari kemarin lampu
        jam menit berikutnya atau pada""",
    "Vietnamese": """và của là có không được cho với trong ở tôi bạn này đó một các những gì ai đâu khi nào như thế mấy bao nhiêu hãy
        vui lòng bật tắt đặt tìm phát gửi mở đóng ngày mai hôm nay qua đèn giờ phút tiếp theo hoặc""",
    "Catalan": """i el la els les amb de del dels un una que és són per a al als on quan com quin quina quant jo tu meu meva no més
        aquest aquesta demà avui ahir vull pots encén apaga posa mostra busca troba envia reserva obre tanca llum llums minuts
        següent si us plau""",
}  # fmt: skip
#: Further words of the languages that are read, which others have, too.
_ALSO = """o está están son es como para por que se me te lo más ya sí cuál puede pueden favor enciende apaga sube baja
    pon abre cierra ou sont est es tu il on va se ne dans vers chez jour lampe lumière lampen licht stelle setze setz spiel mein kann
    so also man was wer wen dem per am so no com pm am ok e de da do use start stop send show get go i me my he we be at is"""
_ALSO_READ = frozenset(_ALSO.split())
_WORDS = {name: frozenset(words.split()) for name, words in _LANGUAGES.items()}
#: Letters of a language that none of those that are read has; a word with one of them counts as a word of it.
_LETTERS: Mapping[str, re.Pattern[str]] = {
    "Portuguese": re.compile("[ãõ]"), "Swedish": re.compile("å"), "Danish or Norwegian": re.compile("[åøæ]"),
    "Finnish": re.compile("ää|öö|yy|yö"), "Polish": re.compile("[ąęłżźćńś]"), "Czech or Slovak": re.compile("[řůěčšžťďň]"),
    "Hungarian": re.compile("[őű]"), "Romanian": re.compile("[ășțşţ]"), "Turkish": re.compile("[ğış]"),
    "Vietnamese": re.compile("[ạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹđơư]"),
}  # fmt: skip
#: Of other scripts, by the first word of the names of their letters.
_SCRIPTS: Mapping[str, str] = {
    "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "HANGUL": "Korean", "CJK": "Chinese", "GREEK": "Greek", "THAI": "Thai",
    "HEBREW": "Hebrew", "ARABIC": "a language in Arabic letters", "CYRILLIC": "a language in Cyrillic letters",
    "DEVANAGARI": "a language in Devanagari letters",
}  # fmt: skip


def other_language(text: str) -> str | None:
    """Return the language of a text if it is none whose values are read (English, French, German, Spanish); else None.

    None, too, where nothing tells it: a name, a number, words that many languages have.

    >>> other_language("Sytytä keittiön valot ja soita jazzia")
    'Finnish'
    """
    text = _QUOTED.sub(" ", text[:_MOST_TEXT])
    written = [word.replace("’", "'") for word in _WORD.findall(text)]
    words = [word.casefold() for word in written]
    if script := _other_script(words):
        return script
    read = max(
        sum(word in known or word in _ALSO_READ for word in words)
        for known in common_words().values()
    )
    # A capital inside of a sentence begins a name, which may be of any language.
    plain = {word for at, word in enumerate(words) if at == 0 or not written[at][0].isupper()}
    named = {name: _own_words(name, plain) for name in _LANGUAGES}
    counts = {
        name: sum(word in _WORDS[name] or word in own for word in words)
        for name, own in named.items()
    }
    best = max(counts, key=lambda name: counts[name])
    is_other = (
        len(named[best]) >= _LEAST_WORDS
        and counts[best] >= 2 * read
        and counts[best] >= _LEAST_SHARE * len(words)
    )
    return best if is_other else None


def unread_language(request: str, languages: Sequence[str], told: Iterable[str]) -> str | None:
    """Say that a request is in none of the ``languages`` that a model reads; None if it seems to be in one of them.

    None, too, if the texts ``told`` of functions are in the request's own language: their words then match.
    """
    found = other_language(request)
    if found is None or found in languages or other_language(" ".join(told)) == found:
        return None
    return f"{SEEMS}{found}, and the model reads {', '.join(languages[:-1])} and {languages[-1]}"


def _own_words(name: str, words: set[str]) -> set[str]:
    """Return the words that are of a language, and of none that is read."""
    letters = _LETTERS.get(name)
    found = {word for word in words if word in _WORDS[name] or (letters and letters.search(word))}
    return found.difference(_ALSO_READ, *common_words().values())


def _other_script(words: list[str]) -> str | None:
    """Return what more than half of the letters belong to, if that is another script than Latin."""
    letters = [letter for word in words for letter in word if not letter.isascii()]
    total = sum(map(len, words))
    if 2 * len(letters) <= total:
        return None
    scripts = Counter(unicodedata.name(letter, "LATIN").split(maxsplit=1)[0] for letter in letters)
    latin = scripts.pop("LATIN", 0) + total - len(letters)
    if sum(scripts.values()) <= latin:
        return None
    if scripts["HIRAGANA"] or scripts["KATAKANA"]:
        return "Japanese"
    script = scripts.most_common(1)[0][0]
    return _SCRIPTS.get(script, f"a language in {script.capitalize()} letters")
