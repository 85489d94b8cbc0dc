"""English short forms, none of them a word itself, and what they stand for: the splitter knows that a sentence goes on
behind them before a small letter or a digit, and the reader says them in full."""

from __future__ import annotations

SHORT_ENGLISH: dict[str, str] = {
    short: (long or short).replace("_", " ")
    for short, _, long in (entry.partition("=") for entry in (
        "abbr=abbreviation acad=academy acct=account addl=additional addr=address advt=advertisement amt=amount "
        "anon=anonymous arg=argument args=arguments approx=approximately appl=application appt=appointment "
        "asstd=assorted attn=attention attr=attribute avail=available avg=average bdrm=bedroom bdrms=bedrooms "
        "bldgs=buildings chem=chemistry cmte=committee conc=concentration conf=conference cont=continued "
        "contd=continued cttee=committee cust=customer dbl=double deg=degrees descr=description diam=diameter "
        "dims=dimensions doz=dozen dwg=drawing ea=each econ=economics edn=edition educ=education elec=electric "
        "elev=elevation encl=enclosed engr=engineer equip=equipment eval=evaluation exec=executive fam=family "
        "fed=federal flr=floor flt=flight grp=group freq=frequency furn=furnished govt=government gtd=guaranteed "
        "hist=history hr=hour hrs=hours ht=height illus=illustrated incr=increase inv=invoice irreg=irregular "
        "lang=language lg=large lic=license loc=location maint=maintenance mdse=merchandise mech=mechanical "
        "med=medium mfr=manufacturer mgmt=management mgr=manager mkt=market mktg=marketing mo=month mos=months "
        "mtg=meeting mth=month mths=months mtn=mountain neg=negative num=number occas=occasionally opp=opposite "
        "opt=optional org=organization orig=original pct=percent pd=paid perm=permanent pers=persons pkg=package "
        "pkgs=packages platf=platform pmt=payment poss=possibly prelim=preliminary prev=previous proc=procedure "
        "prob=probably proj=project prov=province publ=published pymt=payment qtr=quarter qty=quantity recd=received "
        " repl=replacement reqd=required rept=report resv=reservation ret=retired rnd=round rxn=reaction sci=science "
        "seq=sequence sgd=signed sm=small soln=solution std=standard subj=subject subsid=subsidiary "
        "subsids=subsidiaries susp=suspension svc=service svcs=services sys=system sz=size tng=training tot=total "
        "transp=transportation twp=township typ=typically unk=unknown util=utilities utils=utilities vols=volumes "
        "wk=week wks=weeks wt=weight yr=year yrs=years"
    ).split())
}  # fmt: skip
