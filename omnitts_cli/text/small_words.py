"""The small words that a text in a Latin script cannot do without, by language: what the detector votes by."""

SMALL_WORDS = {
    "en": (
        "the of and to in is was that it for on with as he be at by i this had not are but from or have an "
        "they which you were her she his him their there been has would who will more when no if out so said "
        "what up about into than them can only other we your my me do our how did does its all just don't "
        "very good hello thank thanks please where a am man any some then these those after before never because while "
        "without should could may might must every each over under again too much many such got get let us here"
    ),
    "de": (
        "der die das und in zu den von mit sich des auf für ist im dem nicht ein eine als auch es an werden "
        "aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur "
        "oder aber vor zur bis mehr durch man sein wurde ich wir ihr du mich dir mir kein keine ja nein guten "
        "danke bitte heute schon was wo warum sehr"
    ),
    "fr": (
        "le la les de des du et en un une est que qui dans pour pas au aux sur par plus ne se ce il elle je "
        "tu nous vous ils elles on avec son sa ses cette ces mais ou où comme été sont être fait tout leur "
        "même avoir si bien sans était ont peut aussi très mon ma mes votre notre bonjour merci oui non "
        "aujourd hui quand parce quoi pourquoi chez moi c j l d"
    ),
    "es": (
        "el la los las de del y en que un una es por con no se para su al lo como más pero sus le ya o este "
        "sí porque esta entre cuando muy sin sobre también me hasta hay donde quien desde todo nos durante "
        "todos uno les ni contra otros ese eso ante ellos yo tú él ella nosotros usted mi qué está están soy "
        "eres son era fue hola gracias buenos días hoy"
    ),
    "pt": (
        "o a os as de do da dos das e em no na nos nas que um uma é por com não se para seu sua ao mais mas "
        "como foi ele ela eu tu você nós são tem à seus ou quando muito há já está também só pelo pela até "
        "isso entre era depois sem mesmo aos ter quem me esse eles essa meu minha num nem olá obrigado "
        "obrigada bom dia hoje sim aqui onde porque estou"
    ),
    "it": (
        "il lo la i gli le di del della dei delle e in che un una è per con non si da sono come più ma al "
        "alla nel nella anche su mi ci o ha se dal questo questa io tu lui lei noi voi loro suo sua mio mia "
        "ho hai era stato molto tutto tutti perché quando dove chi cosa ancora già solo essere fare ciao "
        "grazie buongiorno oggi sì qui così poi quello c l d"
    ),
}
